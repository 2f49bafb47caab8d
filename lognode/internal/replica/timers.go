package replica

import (
	"sync"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/wheel"
)

// Timers is the node's one wheel and the goroutine that turns it. It sleeps until the next due time; what is
// due goes to its partition's inbox like any other event.
type Timers struct {
	clock *Clock
	mu    sync.Mutex
	wheel *wheel.Wheel
	of    map[*Partition]map[uint64]*wheel.Timer

	wake chan struct{} // capacity 1: an earlier timer was set
	stop chan struct{}
	done chan struct{}
}

// owner is what a timer in the wheel belongs to.
type owner struct {
	p  *Partition
	id uint64
}

// NewTimers starts the goroutine; Close ends it.
func NewTimers(clock *Clock) *Timers {
	t := &Timers{clock: clock, wheel: wheel.New(clock.Now()), of: map[*Partition]map[uint64]*wheel.Timer{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go t.run()
	return t
}

// Close stops the wheel: nothing fires after it.
func (t *Timers) Close() {
	close(t.stop)
	<-t.done
}

// set sets and cancels timers of p.
func (t *Timers) set(p *Partition, ops []delivery.TimerOp) {
	t.mu.Lock()
	before, had := t.wheel.NextDue()
	mine := t.of[p]
	for _, op := range ops {
		if op.Cancel {
			if x := mine[op.ID]; x != nil {
				t.wheel.Cancel(x)
				delete(mine, op.ID)
			}
			continue
		}
		if mine == nil {
			mine = map[uint64]*wheel.Timer{}
			t.of[p] = mine
		}
		x := &wheel.Timer{Owner: owner{p, op.ID}}
		mine[op.ID] = x
		t.wheel.Insert(x, op.Due)
	}
	after, has := t.wheel.NextDue()
	t.mu.Unlock()
	if has && (!had || after < before) {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// Look has the wheel look what is due, because the clock was settled.
func (t *Timers) Look() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Forget cancels all timers of a partition.
func (t *Timers) Forget(p *Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, x := range t.of[p] {
		t.wheel.Cancel(x)
	}
	delete(t.of, p)
}

func (t *Timers) run() {
	defer close(t.done)
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	for {
		var due []owner
		t.mu.Lock()
		t.wheel.Advance(t.clock.Now(), func(x *wheel.Timer) {
			o := x.Owner.(owner)
			delete(t.of[o.p], o.id)
			due = append(due, o)
		})
		next, ok := t.wheel.NextDue()
		t.mu.Unlock()
		for _, o := range due {
			o.p.fire(o.id)
		}
		wait := time.Hour
		if ok {
			wait = time.Duration(max(next-t.clock.Now(), 0))
		}
		alarm.Reset(wait)
		select {
		case <-alarm.C:
		case <-t.wake:
		case <-t.stop:
			return
		}
	}
}

func (p *Partition) fire(id uint64) {
	p.post(func() {
		if id == scheduleTimer {
			p.schedulesDue()
			return
		}
		if l := p.lead; l != nil && l.machine != nil {
			l.machine.Fire(p.env.Clock.Now(), id)
		}
	})
}

// setTimers passes on what the machine wants after a round of events.
func (p *Partition) setTimers(l *leadership) {
	var ops []delivery.TimerOp
	l.machine.TakeTimers(func(op delivery.TimerOp) { ops = append(ops, op) })
	if len(ops) > 0 {
		p.env.Timers.set(p, ops)
	}
}
