package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// Rebalance publishes to all partitions at a steady rate, has members of an assigned group consume, and then has one
// join, one leave and one die. It tells how many partitions changed hands and how long each was without a delivery.
type Rebalance struct {
	Options `embed:""`
	Group   string        `default:"rebalance" help:"Group to join."`
	Members int           `default:"3" help:"Members at the beginning."`
	Rate    float64       `default:"1200" help:"Messages a second over all partitions."`
	TTL     time.Duration `name:"ttl" default:"2s" help:"How long a member outlives its last call; whole seconds."`
	Rest    time.Duration `default:"5s" help:"Time without a change, and after each change."`
	Plot    string        `help:"File to write the run to as a plot (SVG)."`
}

const (
	// rebalanceLease is short, so that what a killed member had comes back within the run.
	rebalanceLease = 2 * time.Second
	// observeEvery is how often the assignment is looked at, which is how exact the times of its changes are.
	observeEvery = 10 * time.Millisecond
)

func (o *Rebalance) valid() error {
	switch {
	case o.Members < 2 || o.Members > 100:
		return errors.New("--members must be 2 to 100")
	case o.Rate <= 0 || o.Rest < time.Second || o.TTL < 2*time.Second || o.TTL%time.Second != 0:
		return errors.New("--rate must be more than 0, --rest at least 1s, --ttl at least 2s and whole seconds")
	case o.Size < checker.MinSize:
		return fmt.Errorf("--size must be at least %d, so that a value can name itself", checker.MinSize)
	}
	return nil
}

// rebalanceRun is what the workers share.
type rebalanceRun struct {
	*Rebalance
	target *target
	check  *checker.Checker
	start  time.Time

	mu        sync.Mutex
	delivered [][]arrival // by partition, in order
	turns     []turn
	loops     int
	// unsure are the messages whose acknowledgement was sent and not answered: they may be settled all the same.
	unsure int
}

// Run measures four stretches of time: without a change, after a join, after a leave and after a death.
func (o *Rebalance) Run(ctx context.Context) (*Report, error) {
	if err := o.valid(); err != nil {
		return nil, err
	}
	o.Connections = int(o.Partitions)
	o.Duration = 4*o.Rest + o.TTL
	t, err := prepare(ctx, &o.Options)
	if err != nil {
		return nil, err
	}
	frame := newRun("rebalance", &o.Options, t, o)
	r := &rebalanceRun{Rebalance: o, target: t, start: frame.start, delivered: make([][]arrival, o.Partitions),
		check: checker.New(checker.Options{Run: t.run, Fresh: t.fresh, Disturbed: true})}
	consuming, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	team, err := r.team(consuming)
	var watching sync.WaitGroup
	watching.Go(func() { r.observe(consuming) })
	var phases []phase
	if err == nil {
		var script sync.WaitGroup
		script.Go(func() { phases = r.script(ctx, team, frame.window) })
		err = frame.workers(ctx, int(o.Partitions), finishing, r.publish)
		script.Wait()
		r.drain(ctx)
	}
	team.stop()
	stop()
	watching.Wait()
	report, err := frame.finish(ctx, "publish", o.Size, err)
	verdict := r.check.Finish()
	report.Check, report.Incomplete = &verdict, verdict.Unsettled > r.unsure
	report.Rebalance = analyse(r.delivered, phases, r.turns)
	if o.Plot != "" && err == nil {
		err = os.WriteFile(o.Plot, drawRebalance(r.delivered, phases, report.Rebalance), 0o644)
	}
	return report, err
}

// publish sends to one partition at a steady rate, each message after the answer to the one before.
func (r *rebalanceRun) publish(ctx context.Context, number int, rec *recorder) {
	partition := uint32(number)
	due := newPace(r.Rate, int(r.Partitions), number, time.Now())
	for rec.window.open(ctx) {
		at := due.next(ctx)
		value, id, ok := r.check.Next(nil, number, r.Size)
		if !ok || ctx.Err() != nil {
			return
		}
		key := fmt.Sprintf("key-%d", number)
		out, err := r.target.client.Publish(ctx, r.target.topic, client.Message{Key: &key, Value: value, Partition: &partition})
		if err != nil {
			r.check.Unknown(id) // the client has repeated what may be repeated
			rec.fail("publish")
			continue
		}
		r.check.Stored(id, out.Partition, out.Offset)
		rec.done(at, time.Now(), 1)
	}
}

// script lets members come and go.
func (r *rebalanceRun) script(ctx context.Context, t *team, w window) []phase {
	pause(ctx, time.Until(w.from))
	var out []phase
	step := func(name string, d time.Duration, do func() error) {
		from := time.Since(r.start)
		if err := do(); err != nil {
			name += fmt.Sprintf(" (failed: %v)", err)
		}
		pause(ctx, d-(time.Since(r.start)-from))
		out = append(out, phase{name: name, from: from, to: time.Since(r.start)})
	}
	step("no change", r.Rest, func() error { return nil })
	step("one joins", r.Rest, func() error { return t.join(memberName(r.Members + 1)) })
	step("one leaves", r.Rest, func() error { return t.leave(memberName(1)) })
	step("one is killed", r.Rest+r.TTL, func() error { t.kill(memberName(2)); return nil })
	return out
}

// observe notes each assignment of the group.
func (r *rebalanceRun) observe(ctx context.Context) {
	last := uint64(0)
	for ctx.Err() == nil {
		list, err := r.target.client.Members(ctx, r.target.topic, r.Group)
		if err == nil && list.Generation != last {
			last = list.Generation
			r.turn(&list)
		}
		pause(ctx, observeEvery)
	}
}

func (r *rebalanceRun) turn(list *api.MemberList) {
	owners := make([]string, r.Partitions)
	for _, m := range list.Members {
		for _, p := range m.Assignment {
			owners[p] = m.Member
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns = append(r.turns, turn{at: time.Since(r.start), owners: owners})
}

func (r *rebalanceRun) lost() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unsure
}

// drain waits until everything is acknowledged, also what the killed member had.
func (r *rebalanceRun) drain(ctx context.Context) {
	for deadline := time.Now().Add(10 * rebalanceLease); r.check.Unacked() > r.lost() && ctx.Err() == nil && time.Now().Before(deadline); {
		pause(ctx, 20*time.Millisecond)
	}
}
