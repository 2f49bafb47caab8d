package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/splashdam/splashdam/deploy/cluster"
	"github.com/splashdam/splashdam/deploy/wallclock"
)

// clocksDiffer is how far what one leader stamps and what the test's own clock says may be apart when a clock is wrong: a node's time
// is within a second of the others' when it has asked them, and may have stepped by another one since (rule R8).
const clocksDiffer = 2 * time.Second

const clockFault = "clock jumps"

// followClocks gives every process a clock that a fault can set.
func (r *rig) followClocks() error {
	if !wallclock.Supported {
		return nil
	}
	for _, tier := range []struct {
		name string
		n    int
	}{{"coordinator", r.coordinators}, {"node", nodes}, {"gateway", r.gateways}} {
		for i := 1; i <= tier.n; i++ {
			if err := wallclock.Set(wallclock.Of(r.dir, fmt.Sprintf("%s-%d", tier.name, i)), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// clockJumps sets the clock of one process up to an hour off, at once, there and back again, or step by step, and sets it right
// when the cluster has been whole with it: one wrong clock of three is nobody's loss.
func clockJumps(r *rig, ctx context.Context) error {
	m := r.leading(ctx)
	switch r.random.IntN(4) {
	case 0:
		m = r.anyGateway()
	case 1:
		m = r.anyCoordinator()
	}
	for _, tr := range r.loads() {
		tr.timed.clocksOff()
	}
	by := time.Duration(1 + r.random.Int64N(int64(time.Hour)))
	if r.random.IntN(3) == 0 { // hardly wrong, or not at all
		by = time.Duration(1 + r.random.Int64N(int64(3*time.Second)))
	}
	if r.random.IntN(2) == 0 {
		by = -by
	}
	steps := []time.Duration{by}
	switch r.random.IntN(3) {
	case 0:
		steps = []time.Duration{by, 0, -by, by / 2, by}
	case 1:
		steps = nil
		for i := range 40 {
			steps = append(steps, by*time.Duration(i+1)/40)
		}
	}
	r.say("the clock of %s goes off by %s, in %d steps", m.Name(), by, len(steps))
	for _, off := range steps {
		if err := r.setClock(m, off); err != nil {
			return err
		}
		pause(ctx, r.absence()/20)
	}
	if err := r.calm(ctx); err != nil {
		return err
	}
	pause(ctx, r.absence())
	r.say("the clock of %s is set right", m.Name())
	return r.setClock(m, 0)
}

func (r *rig) setClock(m *cluster.Member, off time.Duration) error {
	return wallclock.Set(wallclock.Of(r.dir, m.Name()), off)
}
