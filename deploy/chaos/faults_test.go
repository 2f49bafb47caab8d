package chaos

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/deploy/cluster"
)

// fault is one kind of trouble. run makes it and heals it, as far as restarting what was killed heals.
type fault struct {
	name string
	// often weighs it among the others; once says that a run stands it a single time.
	often int
	once  bool
	run   func(r *rig, ctx context.Context) error
}

// faults are all kinds.
var faults = []fault{
	{name: "node kill -9", often: 3, run: killNode},
	{name: "leader kill -9", often: 3, run: killLeader},
	{name: "node killed twice", often: 2, run: killTwice},
	{name: "node frozen", often: 3, run: freezeNode},
	{name: "node frozen briefly", often: 2, run: freezeBriefly},
	{name: "node restart", often: 2, run: restartNode},
	{name: "leaders moved", often: 2, run: moveLeaders},
	{name: "gateway kill -9", often: 2, run: killGateway},
	{name: "gateway frozen", often: 1, run: freezeGateway},
	{name: "gateway restart", often: 1, run: restartGateway},
	{name: "coordinator kill -9", often: 2, run: killCoordinator},
	{name: "coordinator frozen", often: 1, run: freezeCoordinator},
	{name: "coordinators down", often: 1, run: coordinatorsDown},
	{name: "coordinators down while moving", often: 1, run: coordinatorsDownMoving},
	{name: "coordinators stopped while moving", often: 1, run: stopCoordinators},
	{name: "all nodes kill -9", often: 1, run: killNodes},
	{name: "everything kill -9", often: 1, run: killEverything},
	{name: "damaged file", often: 2, run: damageFile},
	{name: "truncated file", often: 2, run: truncateFile},
	{name: "disk full", often: 1, run: fillDisk},
	{name: "disk full at once", often: 1, run: fillDiskAtOnce},
	{name: clockFault, often: 2, run: clockJumps},
	{name: "wiped node", once: true, run: wipeNode},
}

// absence is how long something is away: from nothing to past all leases.
func (r *rig) absence() time.Duration {
	return time.Duration(r.random.Int64N(int64(5 * time.Second)))
}

func (r *rig) anyNode() *cluster.Member { return r.cluster.Node(1 + r.random.IntN(nodes)) }

// leading is the node that leads most partitions.
func (r *rig) leading(ctx context.Context) *cluster.Member {
	leads, err := r.leads(ctx)
	if err != nil {
		return r.anyNode()
	}
	best := 1
	for i := range leads {
		if len(leads[i]) > len(leads[best]) {
			best = i
		}
	}
	return r.cluster.Node(best)
}

func (r *rig) kill(ctx context.Context, m *cluster.Member, away time.Duration) error {
	r.say("kill -9 %s for %s", m.Name(), away.Round(time.Millisecond))
	if err := m.Kill(); err != nil {
		return err
	}
	pause(ctx, away)
	return r.begin(ctx, m)
}

// begin starts a member that does not run.
func (r *rig) begin(ctx context.Context, m *cluster.Member) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return m.Start(ctx)
}

func (r *rig) freeze(ctx context.Context, m *cluster.Member, away time.Duration) error {
	r.say("SIGSTOP %s for %s", m.Name(), away.Round(time.Millisecond))
	if err := m.Pause(); err != nil {
		return err
	}
	pause(ctx, away)
	return m.Resume()
}

func (r *rig) restart(ctx context.Context, m *cluster.Member) error {
	r.say("restart %s", m.Name())
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return m.Restart(ctx)
}

func killNode(r *rig, ctx context.Context) error { return r.kill(ctx, r.anyNode(), r.absence()) }

func killLeader(r *rig, ctx context.Context) error { return r.kill(ctx, r.leading(ctx), r.absence()) }

// killTwice kills a node again while it is still coming up.
func killTwice(r *rig, ctx context.Context) error {
	m := r.anyNode()
	if err := r.kill(ctx, m, r.absence()/10); err != nil {
		return err
	}
	pause(ctx, r.absence()/10)
	return r.kill(ctx, m, 0)
}

// freezeNode freezes a node until its lease has ended, and lets a zombie out.
func freezeNode(r *rig, ctx context.Context) error {
	return r.freeze(ctx, r.leading(ctx), 3*time.Second+r.absence())
}

func freezeBriefly(r *rig, ctx context.Context) error {
	return r.freeze(ctx, r.anyNode(), r.absence()/3)
}

// moveLeaders is an operator's wish. It may come while the cluster is not whole, and is then refused: no harm.
func moveLeaders(r *rig, ctx context.Context) error {
	m := r.leading(ctx)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := r.moveAll(ctx, m); err != nil {
		r.say("moving the leaders away from %s: %v", m.Name(), err)
	}
	return nil
}

func restartNode(r *rig, ctx context.Context) error { return r.restart(ctx, r.anyNode()) }

func (r *rig) anyGateway() *cluster.Member { return r.cluster.Gateway(1 + r.random.IntN(r.gateways)) }

func killGateway(r *rig, ctx context.Context) error { return r.kill(ctx, r.anyGateway(), r.absence()) }

func freezeGateway(r *rig, ctx context.Context) error {
	return r.freeze(ctx, r.anyGateway(), r.absence())
}

func restartGateway(r *rig, ctx context.Context) error { return r.restart(ctx, r.anyGateway()) }

func (r *rig) anyCoordinator() *cluster.Member {
	return r.cluster.Coordinator(1 + r.random.IntN(r.coordinators))
}

func killCoordinator(r *rig, ctx context.Context) error {
	return r.kill(ctx, r.anyCoordinator(), r.absence())
}

func freezeCoordinator(r *rig, ctx context.Context) error {
	return r.freeze(ctx, r.anyCoordinator(), r.absence()+2*time.Second)
}

func killNodes(r *rig, ctx context.Context) error {
	away := r.absence()
	r.say("kill -9 all nodes for %s", away.Round(time.Millisecond))
	all := r.tier(nodes, r.cluster.Node)
	if err := killTogether(all); err != nil {
		return err
	}
	pause(ctx, away)
	return r.startTogether(ctx, all)
}

func killEverything(r *rig, ctx context.Context) error {
	r.say("kill -9 everything")
	tiers := [][]*cluster.Member{r.tier(r.coordinators, r.cluster.Coordinator), r.tier(nodes, r.cluster.Node), r.tier(r.gateways, r.cluster.Gateway)}
	var all []*cluster.Member
	for _, tier := range tiers {
		all = append(all, tier...)
	}
	if err := killTogether(all); err != nil {
		return err
	}
	for _, tier := range tiers {
		if err := r.startTogether(ctx, tier); err != nil {
			return err
		}
	}
	return nil
}

func (r *rig) tier(n int, at func(int) *cluster.Member) (out []*cluster.Member) {
	for i := 1; i <= n; i++ {
		out = append(out, at(i))
	}
	return out
}

func killTogether(all []*cluster.Member) error {
	return together(all, (*cluster.Member).Kill)
}

func together(all []*cluster.Member, do func(*cluster.Member) error) error {
	var g errgroup.Group
	for _, m := range all {
		g.Go(func() error { return do(m) })
	}
	return g.Wait()
}

func (r *rig) startTogether(ctx context.Context, tier []*cluster.Member) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for _, m := range tier {
		g.Go(func() error { return m.Start(ctx) })
	}
	return g.Wait()
}
