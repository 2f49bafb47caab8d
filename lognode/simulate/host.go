// Package simulate is a log node that runs under a simulation's scheduler: one goroutine, no clock, no disk, no
// network but those that a Host gives it. The same seed gives the same run.
//
// It is a twin, and honest about it: internal/replica and internal/store hold goroutines and real files and can't run
// under a scheduler. What decides is the real code (internal/segment, internal/delivery, internal/schedule, internal/clocks,
// internal/slow, internal/wheel, shared/mq); the loop around it is written here again, thin, and calls the same functions in the same order as
// internal/replica does. Where the two differ, internal/replica is right and this is a bug. Not modelled: bounds on
// memory, retention and what is carried past it, reads by consumers of old messages, traces.
//
// A Disk outlives the runs of its node. Mutations break a rule on purpose, to show that a simulation notices.
package simulate

import (
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
)

// Host is the world around one run of a node. Its functions are called by the scheduler's one goroutine and never
// block; what they promise to call later they call only while the run lives.
type Host struct {
	// Now is the node's own clock, which may drift and jump (Unix nanoseconds). Steady drifts and never jumps. True is the scheduler's time, for
	// what only the checker looks at.
	Now, Steady, True func() int64
	// After calls f in d of true time.
	After func(d time.Duration, f func())
	// Sync is how long the next sync of the disk takes, and whether it succeeds.
	Sync func() (time.Duration, bool)
	// Send puts a message on the stream to a follower; false if there is none now.
	Send func(to mq.StoreID, m any) bool
	// Connected says whether that stream has been answered.
	Connected func(to mq.StoreID) bool
	// Call runs a control call on the node at another replica's address. done gets its answer, or false after a
	// time-out.
	Call func(to mq.Replica, run func(n *Node, reply func(any)), done func(res any, ok bool))
	// Chain is a linearizable read of a partition's key and its sealed segments, oldest first.
	Chain func(p mq.PartitionID, done func(h mq.Head, sealed []mq.Segment, ok bool))
	// RecordLost is the transaction that records what lies between held and the end of a sealed segment as lost. It
	// compares the head's revision; an error that only says that it changed is nil, because the chain is read again.
	RecordLost func(h mq.Head, s mq.Segment, held mq.Position, forced bool, done func(error))
	// Force reads an operator's wish about an open segment that stands; nil if there is none.
	Force func(p mq.PartitionID, open mq.SegmentID, done func(f *Force, ok bool))
	// WantSeal asks the controller for a seal.
	WantSeal func(s mq.SegmentID, reason string)
	// Fault hears of a broken invariant.
	Fault func(err error)
	// Groups are those that were started.
	Groups []delivery.GroupConfig
	// SegmentBytes is where a segment rolls, CheckpointBytes how much journal lies between two checkpoints.
	SegmentBytes, CheckpointBytes int64
	Mutation                      Mutation
}

// Mutation is a rule that this node breaks; the zero value breaks none.
type Mutation struct {
	AckBeforeSync     bool // an entry is acknowledged when it is given to the disk
	ForgetSealFlag    bool // a crash forgets it
	IgnoreUnknown     bool // a copy that the ledger calls too short is taken at its word
	AnswerBeforeQueue bool // a seal is answered while entries wait for the disk, which are acknowledged after it
	AnswerAtOnce      bool // producers are answered before commit
	ResumeLeading     bool // a restarted leader goes on with its segment
	ForgetKeys        bool // a leader takes the messages whose keys it must read for ones without a key
	UrgentHides       bool // a message that is given out before the one in front of it settles that one
	DeadTooSoon       bool // groups have one attempt fewer than they should
	DeadTooLate       bool // and one more
	IgnoreTTL         bool // messages past their TTL are given out
	LapseEarly        bool // messages are taken to be past a TTL that is not over
	ReleaseEarly      bool // schedules are released a second early
	ForgetSchedules   bool // a new leader does not learn which schedules wait since before its checkpoint
	ForgetCancels     bool // a leader answers that a schedule is cancelled, and does not write that down
	ReleaseTwice      bool // a new leader does not learn which schedules were released
	ReuseNumbers      bool // numbers of schedules that were given up are given again
	ForgetLanes       bool // a new leader does not learn the lanes of what lies before its checkpoint
	RestoreShort      bool // a damaged copy of the open segment answers before all that it had is back
	LoseMore          bool // an operator's word gives up a sealed segment from its begin on, whatever is left of it
}

// limit breaks a group's limit of attempts, if the mutation is about that.
func (m *Mutation) limit(g *delivery.GroupConfig) {
	switch {
	case g.Settings.MaxAttempts == 0:
	case m.DeadTooSoon:
		g.Settings.MaxAttempts = max(1, g.Settings.MaxAttempts-1)
	case m.DeadTooLate:
		g.Settings.MaxAttempts++
	}
}

// Group is a group that every simulation can start with: from the first offset on.
func Group(id mq.GroupID, s mq.GroupSettings) delivery.GroupConfig {
	return delivery.GroupConfig{ID: id, Name: "group", Version: 1, Settings: s}
}
