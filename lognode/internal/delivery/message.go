package delivery

import "github.com/splashdam/splashdam/shared/mq"

// State is where a message is in one group.
type State uint8

// The states. Acked and dead are final.
const (
	StateReady   State = iota // never handed out, or to be handed out again
	StateLeased               // handed out until a deadline
	StateWaiting              // failed, ready again at a time
	StateDead                 // failed for good, stays in place
	StateAcked                // done
	states
	// StateParked is how listings call a ready message that waits behind another one of its key.
	StateParked State = 100
)

var stateNames = [states]string{"ready", "leased", "waiting", "dead", "acked"}

// String is the state's name in the API.
func (s State) String() string {
	if s < states {
		return stateNames[s]
	}
	if s == StateParked {
		return "parked"
	}
	return "unknown"
}

// fence orders the hand-overs of a message: by segment number, then by lease counter.
type fence struct{ segment, counter uint64 }

func (f fence) less(o fence) bool {
	return f.segment < o.segment || f.segment == o.segment && f.counter < o.counter
}

// plus is the fence of the i-th message of a run whose first has f.
func (f fence) plus(i uint32) fence { return fence{f.segment, f.counter + uint64(i)} }

// message is one that is out: handed out at least once (or settled by a receipt without a known lease) and
// neither acked nor dropped.
type message struct {
	state State
	// inAgain says that the group's heap of messages to hand out again has this offset.
	inAgain bool
	// extended says that its lease is about to go on with another deadline: leaving its grant does not end it.
	extended bool
	lane     mq.Lane
	// exported says that this dead letter was published to the group's dead letter topic.
	exported bool
	// key is the hash of its key, 0 for none, if keyKnown: in groups that order by key. listed and counted say that
	// it is in the list of its key, and among the leased or the ready ones that are counted; see keyed.go.
	key                       uint64
	keyKnown, listed, counted bool
	// attempt counts the hand-overs; those that did not happen are taken back.
	attempt uint32
	// size is what it counts for dead.max_bytes, as soon as a leader has learnt it; 0 before.
	size  uint32
	fence fence
	// until is when a waiting message is ready again, or when a dead one died; else 0.
	until int64
	// firstAt and lastAt are when it was handed out first and last, counted as its attempts are; 0 for never.
	firstAt, lastAt int64
	grant           *grant // of a leased one
	// reason and by say why the last attempt failed and whose it was, nil if none did.
	reason, by *text
}

// grant is what one receive handed out, or what one extend gave a deadline of its own.
type grant struct {
	id    uint64 // 0 once nothing of it is leased
	group *group
	until int64
	by    *text
	runs  []Run
	size  int // messages in runs
	left  int // of them, those still leased by this grant

	unconfirmed      bool
	stream, delivery uint64
	account          uint64 // who is told when a lease ends, 0 for nobody
	sibling          *grant // another one with the same stream and delivery
}

// text is a string that several messages share; it counts once in Size.
type text struct {
	s    string
	refs int
}

type texts struct {
	all   map[string]*text
	bytes int
}

const textOverhead = 4

// What stands for a text that a leader does not keep, see Machine.kept.
const (
	otherReason   = "(not kept: the partition has too many different reasons)"
	otherConsumer = "(one of very many)"
)

// kept is a text that a user wrote, cut to n bytes, or other where different ones take MaxTexts already: every message that
// is out may have a reason of its own. It is the leader that decides so, and what it writes is what all have.
func (m *Machine) kept(s string, n int, other string) string {
	s = cut(s, n)
	if m.texts.all[s] == nil && m.texts.bytes+len(s) > MaxTexts {
		return other
	}
	return s
}

func (t *texts) take(s string) *text {
	if s == "" {
		return nil
	}
	x := t.all[s]
	if x == nil {
		x = &text{s: s}
		t.all[s] = x
		t.bytes += len(s) + textOverhead
	}
	x.refs++
	return x
}

// hold is take for a text that is held already.
func (x *text) hold() *text {
	if x != nil {
		x.refs++
	}
	return x
}

func (t *texts) drop(x *text) {
	if x == nil {
		return
	}
	if x.refs--; x.refs == 0 {
		delete(t.all, x.s)
		t.bytes -= len(x.s) + textOverhead
	}
}

func (x *text) String() string {
	if x == nil {
		return ""
	}
	return x.s
}
