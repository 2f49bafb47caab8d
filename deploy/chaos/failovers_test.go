package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/deploy/cluster"
)

// failover is one way to lose a leader. do begins it, undo brings the node back.
type failover struct {
	name     string
	do, undo func(r *rig, ctx context.Context, m *cluster.Member) error
}

var failovers = []failover{
	{"leaders moved", (*rig).moveAll, func(*rig, context.Context, *cluster.Member) error { return nil }},
	{"node stopped in order", func(_ *rig, ctx context.Context, m *cluster.Member) error { return m.Stop(ctx) }, startAgain},
	{"leader kill -9", func(_ *rig, _ context.Context, m *cluster.Member) error { return m.Kill() }, startAgain},
	{"leader SIGSTOP", func(_ *rig, _ context.Context, m *cluster.Member) error { return m.Pause() },
		func(_ *rig, _ context.Context, m *cluster.Member) error { return m.Resume() }},
}

func startAgain(_ *rig, ctx context.Context, m *cluster.Member) error { return m.Start(ctx) }

// moveAll moves every partition that a node leads to another node, all at once.
func (r *rig) moveAll(ctx context.Context, m *cluster.Member) error {
	leads, err := r.leads(ctx)
	if err != nil {
		return err
	}
	var all errgroup.Group
	for i := range leads {
		if r.cluster.Node(i) != m {
			continue
		}
		for _, p := range leads[i] {
			all.Go(func() error {
				_, err := r.any.MoveLeader(ctx, r.traffic.topic, uint32(p), "")
				return err
			})
		}
	}
	return all.Wait()
}

// TestFailovers measures the write gap of each partition whose leader goes away, -failovers times for each way. It
// measures and judges nothing but that everything acknowledged is there: how long it takes is the machine's affair.
func TestFailovers(t *testing.T) {
	n := *flags.failovers
	if n == 0 {
		t.Log("nothing is measured without -failovers")
		return
	}
	seed := *flags.seed
	if seed == 0 {
		seed = uint64(rand.Uint32())
	}
	r := newRig(t, seed, setup{coordinators: 3, gateways: 2, every: 2 * time.Millisecond})
	ctx := t.Context()
	r.load()
	if err := r.calm(ctx); err != nil {
		t.Fatalf("before any failover: %v", err)
	}
	if err := r.lengthen(ctx, *flags.chain); err != nil {
		t.Fatalf("making the chains long: %v", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "write gaps in ms, of each partition whose leader went away\n%-24s %9s %8s %8s %8s %8s %8s\n",
		"kind", "failovers", "gaps", "p50", "p90", "p99", "max")
	for _, f := range failovers {
		if *flags.only != "" && !slices.Contains(strings.Split(*flags.only, ","), f.name) {
			continue
		}
		var all []time.Duration
		for range n {
			got, err := r.failover(ctx, f)
			if err != nil {
				t.Fatalf("%s: %v", f.name, err)
			}
			all = append(all, got...)
		}
		slices.Sort(all)
		at := func(share float64) float64 {
			return float64(all[min(len(all)-1, int(share*float64(len(all))))].Microseconds()) / 1000
		}
		fmt.Fprintf(&b, "%-24s %9d %8d %8.1f %8.1f %8.1f %8.1f\n", f.name, n, len(all), at(0.5), at(0.9), at(0.99), at(1))
	}
	t.Log(b.String())
	r.judge(ctx)
}

// lengthen moves every leader n times, so that what a leader reads of its chain is as much as after a long time.
func (r *rig) lengthen(ctx context.Context, n int) error {
	for range n {
		var all errgroup.Group
		for i := 1; i <= nodes; i++ {
			all.Go(func() error { return r.moveAll(ctx, r.cluster.Node(i)) })
		}
		if err := all.Wait(); err != nil {
			return err
		}
		pause(ctx, 1200*time.Millisecond) // a segment is left alone for a second after its opening
	}
	return r.calm(ctx)
}

// failover makes one and gives the gaps of the partitions that the node led.
func (r *rig) failover(ctx context.Context, f failover) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	// A segment is left alone for a second after its opening: a failover right then is another measurement.
	pause(ctx, 1500*time.Millisecond)
	leads, err := r.leads(ctx)
	if err != nil {
		return nil, err
	}
	at := 1
	for i := range leads {
		if len(leads[i]) > len(leads[at]) {
			at = i
		}
	}
	m := r.cluster.Node(at)
	r.counts[f.name]++
	r.traffic.gaps.begin(f.name)
	before := r.traffic.gaps.counts()
	if err := f.do(r, ctx, m); err != nil {
		return nil, err
	}
	// The node stays away until all of its partitions are written to again.
	for !r.traffic.gaps.grewSince(before, leads[at], 20) && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
	}
	lengths := r.traffic.gaps.lengths()
	var out []time.Duration
	for _, p := range leads[at] {
		out = append(out, lengths[p])
	}
	r.say("%s: %v", f.name, out)
	if err := f.undo(r, ctx, m); err != nil {
		return nil, err
	}
	return out, r.calm(ctx)
}
