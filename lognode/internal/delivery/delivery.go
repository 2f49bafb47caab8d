// Package delivery is the state of one partition's groups: what each has been handed, has settled, and
// is owed when. It is a deterministic machine over the records of the partition's journal, without I/O and
// without a clock: now is an argument (Unix nanoseconds) and everything that it wants done comes out as
// records, timer operations and wake-up hints.
//
// Goal. What survives is what is in the committed journal. A leader decides at once, on its own state,
// and lets the caller answer after commit; whoever replays the journal must arrive at the same state. The
// memory of a group depends on what is out of order, never on its backlog or on what it has settled.
//
// Invariants (check.go tests them after each step of the property tests):
//   - A group's state is a fresh pointer per lane and the messages that are "out": handed out at least once and not
//     settled for good. Below its lane's pointer, what is not out is settled (acked or dropped); from there on, what is
//     not early is untouched. So each offset is in exactly one state, and there is no set of acked offsets to keep:
//     it is the complement of what must be remembered anyway.
//   - early holds, by lane, the few offsets at or above fresh that are not fresh: a receipt may outlive the record of
//     its lease (details.md, "Written behind") and then settles a message that this leader never handed out.
//   - A message's fence (segment number, lease counter) only grows. A receipt counts while its fence is not
//     lower than the message's: nobody was handed the message after it.
//   - Nothing that is acked comes back, and nothing dead, but by a record of another kind (seek, redrive).
//
// Outline. Each change of a message is a method of group (message.go) that takes what a record says and never
// fails. A decision (receive.go, settle.go, handover.go, timers.go) looks at the state, calls that method and
// writes the record; replay (apply.go) reads the record and calls the same method. A retry that becomes due is
// the one change without a record, because it is a function of the record before it and of time.
//
// Rejected: a bitmap of acked offsets above a cursor (it grows with what is settled out of order, and the
// messages that are not settled must be held one by one anyway for their attempts and fences); a timer
// of the node's wheel for each grant (two hand-overs between goroutines for each receive; here a heap of
// the machine's own deadlines arms one timer, late by nothing and idle in the steady state).
package delivery

import (
	"errors"

	"github.com/splashdam/splashdam/shared/mq"
)

// Bounds. What happens at each is said where it is used.
const (
	// MaxCheckpoint is what the state of a partition may take in a checkpoint, by estimate (Size). At the bound a group is
	// given fresh messages only while what it has out takes less than its share, which is half of the bound divided by the groups
	// that there are; what is out already goes on. So the most is about five times the bound, with groups that came, and
	// filled their shares, one after the other.
	MaxCheckpoint = 8 << 20
	// MaxTexts is what the different reasons and consumers of that may take.
	MaxTexts = MaxCheckpoint
	// MaxReceive is the most messages in one grant and in one record about messages.
	MaxReceive = mq.MaxBatchMessages
	// MaxGroups is how many groups a partition takes; EnsureGroup refuses more.
	MaxGroups = mq.MaxGroups
	// fireBudget is how many messages one Fire handles before it lets the partition do something else: it
	// arms a timer that is due at once for the rest.
	fireBudget = 10_000
)

// What decisions are refused with.
var (
	ErrGroupNotFound = errors.New("delivery: no such group in this partition")
	ErrNotLeading    = errors.New("delivery: this machine does not lead its partition")
	ErrTooManyGroups = errors.New("delivery: the partition has its most groups")
)

// Machine is the state of one partition's groups. It is owned by one goroutine. A leader whose leadership ends
// throws its machine away: decisions that did not commit are in it.
type Machine struct {
	partition mq.PartitionID
	// next is the lowest position that Apply takes: behind what was replayed.
	next mq.Position
	// committed is the end of what groups may see.
	committed uint64
	lanes     catalog
	// unknown is the end of the offsets whose lanes must be learnt before anything is applied; see UnknownLanes.
	unknown uint64
	groups  map[mq.GroupID]*group
	// For groups that order by key: how many there are, the key hashes of the newest messages, and what pick chose.
	ordered    int
	quiet      bool // looking at fresh messages is no change: it is done while groups are refreshed
	tail       hashes
	picked     []picked
	pickedKeys []uint64
	texts      texts

	// clock is the time of the last decision, by the clock of the leader that made it; see Resume. stamp and decider are
	// its entry's stamp and segment, 0 if that was not seen. ahead is nil but behind a checkpoint.
	clock, stamp int64
	decider      mq.SegmentID
	ahead        *ahead

	leading bool
	segment uint64 // number of the open segment, the high part of fences
	counter uint64 // the last lease counter used in it

	// What waits for the caller. Bounded by the caller, who takes after each call.
	records []byte
	urgent  bool
	open    settled // the settled record that is being built; empty between calls
	scratch []byte
	ready   []*group
	freed   []Freed
	touched []*group
	unsized []uint64 // dead letters whose sizes a limit asks for; see deadsize.go
	trims   []*group // those that may have more dead letters than they are allowed
	trimAt  int64    // the time at which

	deadlines heap[deadline]
	timer     TimerOp // the one that is armed; ID 0 for none
	lastTimer uint64
	timerOps  []TimerOp

	grants    int    // live ones
	lastGrant uint64 // ids are never used again, so that a deadline can tell that its grant is gone
	freeGrant []*grant
	// unconfirmed are the hand-overs that their gateway has not confirmed, by stream and delivery.
	unconfirmed map[uint64]map[uint64]*grant

	carried      map[uint64]carriedMessage // see carried.go
	carriedBytes int64
	places       []Carried // of all carried ones and perhaps some more; nil when it must be made anew
	stale        int       // how many more

	messages      int // out, over all groups
	spans         int // early, over all groups
	filters       int // bytes of the groups' filters
	snapshotBytes int
	full          bool
	free          []*message
	replayed      replayed
	beside        []Beside // of the checkpoint that was loaded
}

// New makes the machine of a partition without groups and messages.
func New(p mq.PartitionID) *Machine {
	m := &Machine{partition: p, groups: map[mq.GroupID]*group{}, texts: texts{all: map[string]*text{}},
		unconfirmed: map[uint64]map[uint64]*grant{}, carried: map[uint64]carriedMessage{}}
	m.deadlines.less = func(a, b deadline) bool { return a.due < b.due }
	return m
}

// Lead says that this node leads from here in the segment with this number. Call it when everything
// committed is applied, and again at each roll of the segment: leases live on, the lease counter begins
// again at 1 and the number makes fences grow. Timers are set for all leases and retries; leases count on from
// the journal's times, and what is due already fires at once.
func (m *Machine) Lead(segment uint64, now int64) {
	m.leading, m.segment, m.counter, m.clock = true, segment, 0, now
	// The owner of the wheel forgets the timers of a leadership with its end; what was set before a roll is set anew.
	m.timer, m.unsized = TimerOp{}, nil
	for _, g := range m.sorted() {
		g.more = true
		m.touch(g)
		m.countDead(g, now)
		m.orders(g)
	}
	m.done()
}

// Leading says whether Lead was called.
func (m *Machine) Leading() bool { return m.leading }

// Partition is whose groups these are.
func (m *Machine) Partition() mq.PartitionID { return m.partition }

// Commit makes the messages below next visible to groups. It never goes back.
func (m *Machine) Commit(next uint64) {
	if next <= m.committed {
		return
	}
	m.advance(next)
	for _, g := range m.groups {
		g.more = g.more || g.freshCount() > 0
		m.touch(g)
	}
	m.done()
}

// Committed is the end of the visible messages.
func (m *Machine) Committed() uint64 { return m.committed }

// done ends a call that changed something: the record being built is written, groups that became ready are
// queued, and the timer is armed for the first deadline.
func (m *Machine) done() {
	m.trimDead()
	m.flush()
	if !m.leading {
		m.touched = m.touched[:0]
		return
	}
	if full := m.Size() >= MaxCheckpoint; full != m.full {
		m.full = full
		for _, g := range m.groups {
			m.touch(g)
		}
	}
	for _, g := range m.touched {
		g.touched = false
		m.refresh(g)
	}
	clear(m.touched)
	m.touched = m.touched[:0]
	m.arm()
}

func (m *Machine) touch(g *group) {
	if m.leading && !g.touched && !m.quiet {
		g.touched = true
		m.touched = append(m.touched, g)
	}
}

// refresh queues a wake-up for g if it can give out more than when it was last looked at.
func (m *Machine) refresh(g *group) {
	can := m.canGive(g) > 0
	if can && (g.more || !g.wasReady) && !g.queued {
		g.queued = true
		m.ready = append(m.ready, g)
	}
	g.wasReady, g.more = can, false
}

// TakeReady calls f for each group that has become ready, or ready with more, since the last call and still is.
// Each comes once a call. A hint for wake-ups: whoever comes later asks Ready.
func (m *Machine) TakeReady(f func(mq.GroupID)) {
	for _, g := range m.ready {
		g.queued = false
		if m.groups[g.ID] == g && m.canGive(g) > 0 {
			f(g.ID)
		}
	}
	clear(m.ready)
	m.ready = m.ready[:0]
}

// TakeRecords appends the records of the decisions since the last call, in order, and forgets them. They
// belong into the partition's next entry.
func (m *Machine) TakeRecords(dst []byte) []byte {
	dst = append(dst, m.records...)
	m.records, m.urgent = m.records[:0], false
	return dst
}

// Pending is how many bytes of records wait to be taken.
func (m *Machine) Pending() int { return len(m.records) }

// Urgent says whether a record waits that somebody's answer waits for: anything but first attempts.
func (m *Machine) Urgent() bool { return m.urgent }

// Size is about how many bytes a checkpoint of the state takes; see MaxCheckpoint.
func (m *Machine) Size() int {
	return sizeGroup*len(m.groups) + sizeCarried*len(m.carried) + sizeMessage*m.messages + sizeSpan*m.spans + sizeGrant*m.grants + m.texts.bytes + m.filters + m.snapshotBytes
}

// What each thing takes in a checkpoint, rounded up from what is usual (a message has 9 to 35 bytes).
const (
	sizeGroup   = 512
	sizeMessage = 40
	sizeSpan    = 16
	sizeGrant   = 16
	sizeCarried = 16
)
