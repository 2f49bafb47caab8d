package chaos

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/deploy/cluster"
)

// mostQuiet is the longest time between two faults of gateways. They are not waited for: the next one comes while the
// last one is still felt.
const mostQuiet = 1500 * time.Millisecond

// gatewayFaults are what happens to gateways. Those that a fault leaves away come back by "added".
var gatewayFaults = []fault{
	{name: "added", often: 4, run: addGateway},
	{name: "kill -9", often: 4, run: func(r *rig, ctx context.Context) error { return r.loseGateway(ctx, (*cluster.Member).Kill) }},
	{name: "drained", often: 2, run: func(r *rig, ctx context.Context) error {
		return r.loseGateway(ctx, func(m *cluster.Member) error { return m.Stop(ctx) })
	}},
	{name: "kill -9, back at once", often: 2, run: func(r *rig, ctx context.Context) error { return r.kill(ctx, r.livingGateway(), 0) }},
	{name: "restart in order", often: 2, run: func(r *rig, ctx context.Context) error { return r.restart(ctx, r.livingGateway()) }},
	{name: "frozen", often: 3, run: func(r *rig, ctx context.Context) error { return r.freeze(ctx, r.livingGateway(), r.absence()) }},
	{name: "frozen while another dies", often: 1, run: freezeAndKill},
	{name: "all kill -9", often: 1, run: killGateways},
}

// TestGateways adds, kills, freezes and drains gateways at random under a mixed load of pull, server-sent events,
// WebSockets and webhooks, with shared and assigned groups, for -chaos, or as a smoke without it. Nothing else is harmed.
func TestGateways(t *testing.T) {
	smokesTogether(t)
	seed := *flags.seed
	if seed == 0 {
		seed = uint64(rand.Uint32())
	}
	r := newRig(t, seed, setup{coordinators: 1, gateways: 4, every: 80 * time.Millisecond})
	ctx := t.Context()
	if err := r.traffic.makeStreams(ctx, r.any); err != nil {
		t.Fatalf("%v (logs in %s)", err, r.dir)
	}
	r.load()
	r.mix(ctx)
	r.traffic.stream()
	if err := r.calm(ctx); err != nil {
		t.Fatalf("before any fault: %v", err)
	}
	if *flags.chaos == 0 {
		for i := range gatewayFaults {
			r.disturb(ctx, &gatewayFaults[i])
		}
	}
	var lot []*fault
	for i := range gatewayFaults {
		for range gatewayFaults[i].often {
			lot = append(lot, &gatewayFaults[i])
		}
	}
	for n := 1; time.Since(r.start) < *flags.chaos && !t.Failed(); n++ {
		r.disturb(ctx, lot[r.random.IntN(len(lot))])
		pause(ctx, time.Duration(r.random.Int64N(int64(mostQuiet))))
		if n%20 == 0 { // now and then it must be well
			r.recover(ctx)
			pause(ctx, 2*aftermath)
		}
	}
	r.recover(ctx)
	r.judge(ctx)
}

// disturb makes a fault of gateways and does not wait until it is healed.
func (r *rig) disturb(ctx context.Context, f *fault) {
	r.counts[f.name]++
	r.traffic.gaps.begin(f.name)
	defer r.trouble()()
	if err := f.run(r, ctx); err != nil {
		r.t.Errorf("%s: %v", f.name, err)
	}
}

// recover brings all gateways back and waits until everything is well.
func (r *rig) recover(ctx context.Context) {
	defer r.trouble()()
	for len(r.away) > 0 {
		if err := addGateway(r, ctx); err != nil {
			r.t.Errorf("a gateway does not come back: %v", err)
			return
		}
	}
	healing := time.Now()
	if err := r.calm(ctx); err != nil {
		r.t.Errorf("with all gateways back: %v", err)
		return
	}
	r.say("all well after %s", time.Since(healing).Round(time.Millisecond))
}

// living are the numbers of the gateways that run.
func (r *rig) living() (out []int) {
	for i := 1; i <= r.gateways; i++ {
		if !r.away[i] {
			out = append(out, i)
		}
	}
	return out
}

func (r *rig) livingGateway() *cluster.Member {
	all := r.living()
	return r.cluster.Gateway(all[r.random.IntN(len(all))])
}

// loseGateway ends one and leaves it away; the last one stays.
func (r *rig) loseGateway(_ context.Context, end func(*cluster.Member) error) error {
	all := r.living()
	if len(all) == 1 {
		return nil
	}
	i := all[r.random.IntN(len(all))]
	r.away[i] = true
	r.say("%s goes, %d stay", r.cluster.Gateway(i).Name(), len(all)-1)
	return end(r.cluster.Gateway(i))
}

// addGateway brings one back that is away.
func addGateway(r *rig, ctx context.Context) error {
	for i := 1; i <= r.gateways; i++ {
		if r.away[i] {
			r.say("%s comes", r.cluster.Gateway(i).Name())
			delete(r.away, i)
			return r.begin(ctx, r.cluster.Gateway(i))
		}
	}
	return nil
}

// freezeAndKill leaves one gateway frozen while another one is killed.
func freezeAndKill(r *rig, ctx context.Context) error {
	all := r.living()
	if len(all) < 2 {
		return nil
	}
	r.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	frozen, killed := r.cluster.Gateway(all[0]), r.cluster.Gateway(all[1])
	long := r.absence()
	var both errgroup.Group
	both.Go(func() error { return r.freeze(ctx, frozen, long) })
	both.Go(func() error {
		pause(ctx, long/2)
		return r.kill(ctx, killed, 0)
	})
	return both.Wait()
}

// killGateways kills all at once.
func killGateways(r *rig, ctx context.Context) error {
	r.say("kill -9 all gateways")
	all := r.tier(r.gateways, r.cluster.Gateway)
	if err := killTogether(all); err != nil {
		return err
	}
	clear(r.away)
	return r.startTogether(ctx, all)
}
