package replica

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/clocks"
)

// MaxSkew is how far a node's clock may be from the median of the nodes' clocks. Beyond it the node releases no schedules and
// leads nothing if others can, and decides by theirs (rule R8).
const MaxSkew = time.Duration(clocks.MaxSkew)

// Clock is the time by which a node decides what is due: clocks.Steady over the machine's clock. Anyone may ask it; one
// goroutine settles it.
type Clock struct {
	began  time.Time
	steady atomic.Pointer[clocks.Steady]

	mu    sync.Mutex
	known chan struct{} // closed once the others have told of the clock, or were waited for; another one when they are waited for again
}

// NewClock begins with what the machine's clock says.
func NewClock() *Clock {
	c := &Clock{began: time.Now(), known: make(chan struct{})}
	s := clocks.NewSteady(c.began.UnixNano(), 0)
	c.steady.Store(&s)
	return c
}

// Now is the time, Unix nanoseconds.
func (c *Clock) Now() int64 {
	now := time.Now()
	return c.steady.Load().Now(now.UnixNano(), int64(now.Sub(c.began)))
}

// Counted is a time that only counts on, in nanoseconds since the clock was made.
func (c *Clock) Counted() int64 { return int64(time.Since(c.began)) }

// Settle takes what the other nodes say of the machine's clock, and says by how much the time is
// later at once: Move the partitions by that.
func (c *Clock) Settle(said clocks.Word) (by int64) {
	now := time.Now()
	next, by := c.steady.Load().Settle(now.UnixNano(), int64(now.Sub(c.began)), said)
	c.steady.Store(&next)
	c.know(!said.Soon)
	return by
}

func (c *Clock) know(known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.known:
		if !known {
			c.known = make(chan struct{})
		}
	default:
		if known {
			close(c.known)
		}
	}
}

// Expect says that the others are about to tell of the clock, and are waited for again: what is settled next says until when.
func (c *Clock) Expect() { c.know(false) }

// Known is closed once the clock was compared with the other nodes', or enough of them were waited for in vain, about two seconds. Before
// that it may be an hour off. Ask for it each time: who was waited for in vain, and comes, is waited for again.
func (c *Clock) Known() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

// awaitClock returns once this node may decide by its clock, or ctx is over.
func (e *Env) awaitClock(ctx context.Context) {
	if e.NobodyTells != nil && e.NobodyTells() {
		return
	}
	select {
	case <-e.Clock.Known():
	case <-ctx.Done():
	}
}

// Skewed says whether this node's clock is too far from the others'.
func (e *Env) Skewed() bool { return time.Duration(e.Ahead.Load()).Abs() > MaxSkew }

// Move says that the node's time is by so much later at once (negative: earlier) than it would have been: leases and waits are
// moved along, so that an hour that nobody lived through is not counted.
func (p *Partition) Move(by int64) {
	p.post(func() {
		if l := p.lead; l != nil && l.machine != nil {
			l.machine.Move(by)
		}
	})
}
