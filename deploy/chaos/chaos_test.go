package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/deploy/wallclock"
)

// TestChaos runs faults for -chaos, or the smoke without it, and proves that nothing acknowledged was lost.
func TestChaos(t *testing.T) {
	smokesTogether(t)
	seed := *flags.seed
	if seed == 0 {
		seed = uint64(rand.Uint32())
	}
	smoke := *flags.chaos == 0
	r := newRig(t, seed, setup{coordinators: 3, gateways: 2, disk: !smoke, every: 15 * time.Millisecond})
	ctx := t.Context()
	r.load()
	r.mix(ctx)
	r.beside(ctx)
	if err := r.calm(ctx); err != nil {
		t.Fatalf("before any fault: %v", err)
	}
	if smoke {
		for _, name := range []string{"leader kill -9", "node frozen briefly", "gateway restart", "coordinator kill -9"} {
			r.fault(ctx, *named(name))
		}
	} else {
		r.faultsFor(ctx, *flags.chaos)
	}
	r.judge(ctx)
	r.readLogs()
}

func named(name string) *fault {
	for i := range faults {
		if faults[i].name == name {
			return &faults[i]
		}
	}
	return nil
}

// faultsFor makes each kind of fault once, in random order, and goes on with random ones until the time is over.
func (r *rig) faultsFor(ctx context.Context, d time.Duration) {
	kinds := slices.Clone(faults)
	if *flags.only != "" {
		only := strings.Split(*flags.only, ",")
		kinds = slices.DeleteFunc(kinds, func(f fault) bool { return !slices.Contains(only, f.name) })
	}
	kinds = slices.DeleteFunc(kinds, func(f fault) bool { return !wallclock.Supported && f.name == clockFault })
	kinds = slices.DeleteFunc(kinds, func(f fault) bool { return !r.mounted && strings.HasPrefix(f.name, "disk full") })
	var lot []fault
	for _, f := range kinds {
		for range f.often {
			lot = append(lot, f)
		}
	}
	r.random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for time.Since(r.start) < d && !r.t.Failed() {
		var f fault
		switch {
		case len(kinds) > 0:
			f, kinds = kinds[0], kinds[1:]
		case len(lot) > 0:
			f = lot[r.random.IntN(len(lot))]
		default:
			return
		}
		r.fault(ctx, f)
		pause(ctx, r.absence()/5)
	}
}

// fault makes one fault and waits until everything is healed. What goes wrong fails the test.
func (r *rig) fault(ctx context.Context, f fault) {
	if r.t.Failed() {
		return
	}
	r.counts[f.name]++
	r.traffic.gaps.begin(f.name)
	defer r.trouble()()
	if err := f.run(r, ctx); err != nil {
		r.t.Errorf("%s: %v", f.name, err)
		return
	}
	healing := time.Now()
	if err := r.calm(ctx); err != nil {
		r.t.Errorf("after %s: %v", f.name, err)
		return
	}
	r.say("healed after %s; longest gap %s", time.Since(healing).Round(time.Millisecond),
		slices.Max(r.traffic.gaps.lengths()).Round(time.Millisecond))
}
