package simulate

import (
	"time"

	"github.com/splashdam/splashdam/lognode/internal/clocks"
	"github.com/splashdam/splashdam/shared/mq"
)

// rightFor is how long a clock must be right again before the node says so: lognode.spaceRest.
const rightFor = int64(5 * time.Second)

// nodeClock is what standing.watchClock, replica.Clock and Env know of this node's clock (rule R8).
type nodeClock struct {
	heard  *clocks.Clocks
	steady clocks.Steady
	ahead  int64
	known  bool // the others have told, or were waited for: replica.Clock.Known
	awaits []func()
	skewed bool  // as the registration says it
	right  int64 // true time since when it is right again, 0 while it is not
}

func newClock(h *Host) nodeClock {
	return nodeClock{heard: clocks.New(), steady: clocks.NewSteady(h.Now(), h.Steady())}
}

// now is the time by which the node decides.
func (n *Node) now() int64 { return n.clock.steady.Now(n.host.Now(), n.host.Steady()) }

// Beat says that another node said something on either stream, and what its clock was.
func (n *Node) Beat(from mq.StoreID, clock int64) {
	n.Heard(from)
	n.clock.heard.Heard(from, clock, n.host.Steady())
}

// awaitClock is Env.awaitClock.
func (n *Node) awaitClock(run func()) {
	if n.clock.known {
		run()
		return
	}
	n.clock.awaits = append(n.clock.awaits, run)
}

// off is Env.Skewed.
func (n *Node) off() bool { return max(n.clock.ahead, -n.clock.ahead) > clocks.MaxSkew }

// WatchClock compares the node's clock with the others' and says whether its registration is to call it skewed. others
// says how many nodes can follow, this one among them, 0 if no other one can lead; with enough of them what is led here is to be sealed.
func (n *Node) WatchClock(heads []mq.Head, others int) (skewed bool) {
	c := &n.clock
	own := n.host.Now()
	said := c.heard.Ask(own, n.host.Steady())
	c.ahead = int64(said.Ahead)
	var by int64
	if c.steady, by = c.steady.Settle(own, n.host.Steady(), said); by != 0 {
		for _, p := range n.order {
			p.post(func() {
				if l := p.lead; l != nil && l.machine != nil {
					l.machine.Move(by)
				}
			})
		}
		n.armed = 0
		n.arm()
	}
	if c.known = c.known || !said.Soon; c.known {
		awaits := c.awaits
		c.awaits = nil
		for _, run := range awaits {
			run()
		}
	}
	now := n.host.True()
	switch {
	case n.off():
		c.skewed, c.right = true, 0
		n.leadNothing(heads, others, "the leader's clock is off")
	case !c.skewed:
	case c.right == 0:
		c.right = now
	case now-c.right >= rightFor:
		c.skewed, c.right = false, 0
	}
	return c.skewed
}

// leadNothing is that of lognode: it asks for every segment to be sealed that this node leads and others can take.
func (n *Node) leadNothing(heads []mq.Head, others int, reason string) {
	for i := range heads {
		if s := heads[i].Open; s != nil && s.Leader == n.self && others >= s.Quorum {
			n.host.WantSeal(s.ID, reason)
		}
	}
}
