// Package schedule is the state of one partition's scheduled messages: which wait, until when, and where in the
// journal their bodies are. It is a deterministic machine over the records of the partition's journal, without I/O
// and without a clock, as lognode/internal/delivery is one for groups.
//
// Goal. A message that was scheduled is released exactly once, never early, whoever leads. A leader decides on its own
// state and writes the record into the entry that it is placing; whoever replays the journal arrives at the
// same state. A release that is not inside the decided end of a segment has not happened.
//
// Outline. Numbers are dense (but for what an operator gave up, see Skip), so what is pending is kept in pages of 256 numbers: about 10 bytes for each pending one
// (its due time, and which of the page's entries holds the body) and what a page costs. Pages are in a heap by
// their earliest due time. What is due within a second or so is taken out of that order into the near heap, whose
// bodies the caller reads ahead; the wheel of the node holds one timer for the first of all.
//
// A checkpoint says which numbers are pending and which were re-timed, about a bit for each number since the oldest
// pending one, and nothing else: due times and places are in the scheduled records themselves, which are never
// removed while their messages are pending. Restore reads them again.
//
// Invariants (check.go tests them after each step of the property tests): a number is pending, or finished (released
// or cancelled), or was never given; a page holds exactly its pending numbers; nothing pending is in neither order.
//
// Rejected: a heap of all pending schedules (24 bytes each and a cache miss for each step of each cancel), and a set of
// finished numbers (it is the complement of what must be known anyway).
package schedule

import (
	"math"

	"github.com/splashdam/splashdam/shared/mq"
)

// Bounds.
const (
	// MaxPending is how many schedules of a partition may be pending; Room says so before more are taken.
	MaxPending = 10_000_000
	// MaxState is the most that the state may take in a checkpoint, in bytes. At the bound Room is false.
	MaxState = 6 << 20
	// MaxRetimed is how many pending schedules may have another due time than at first; Retime refuses more.
	MaxRetimed = 200_000
	// maxCancelled is how many cancelled numbers are remembered as such; older ones count as finished only.
	maxCancelled = 32_768
	// maxReleased is how many released numbers are remembered with their offsets.
	maxReleased = 65_536
)

// State says where a schedule is in its life.
type State uint8

// The states. Finished is released or, beyond the last 32,768 of those, cancelled.
const (
	StateUnknown State = iota // never given
	StatePending
	StateReleased
	StateCancelled
)

// Wanted is a pending schedule and the place of the entry that holds its message.
type Wanted struct {
	mq.Schedule
	At mq.Position
}

// Book is the state of one partition's schedules. It is owned by one goroutine. A leader whose leadership ends throws it
// away: decisions that did not commit are in it.
type Book struct {
	next  uint64 // the number that the next schedule gets
	pages map[uint64]*page
	order pageHeap
	near  nearHeap
	// taken is how many pending ones are near; near may hold stale items beside.
	taken   int
	pending int
	state   int // bytes of the pages in a checkpoint

	retimed   map[uint64]int64 // pending ones whose due time is not that of their record
	cancelled recent[struct{}]
	released  recent[Place] // not part of the replayed state, since replay may begin after them
	// What was seen of scheduled records, for an estimate only.
	seen, seenBytes int64

	records []byte
	scratch []mq.Schedule
	batch   mq.ScheduleBatch

	// restoring are the pending numbers of a checkpoint whose records were not read yet.
	restoring map[uint64]*restored
	waiting   int
}

// New makes the book of a partition without schedules.
func New() *Book {
	return &Book{pages: map[uint64]*page{}, retimed: map[uint64]int64{}, cancelled: newRecent[struct{}](maxCancelled),
		released: newRecent[Place](maxReleased)}
}

// Next is the number that the next schedule gets.
func (b *Book) Next() uint64 { return b.next }

// Pending is how many schedules wait.
func (b *Book) Pending() int { return b.pending }

// Size is about how many bytes a checkpoint of the state takes; see MaxState.
func (b *Book) Size() int { return b.state + 16*len(b.retimed) + 5*len(b.cancelled.order) + 64 }

// Room says whether n more schedules may be taken.
func (b *Book) Room(n int) bool {
	return b.pending+n <= MaxPending && b.Size()+n/pageSize*pageBytes(pageSize) < MaxState
}

// Look is a schedule's state; with its due time and place while it is pending.
func (b *Book) Look(number uint64) (State, Wanted) {
	w := Wanted{Schedule: mq.Schedule{Number: number}}
	if number >= b.next {
		return StateUnknown, w
	}
	if p, i := b.find(number); p != nil {
		w.Due, w.At = p.due[i], p.placeOf(i)
		return StatePending, w
	}
	if _, ok := b.cancelled.get(number); ok {
		return StateCancelled, w
	}
	return StateReleased, w
}

// Place is where a released schedule is: as a message at Offset, and as it was scheduled in the entry At.
type Place struct {
	Offset uint64
	At     mq.Position
}

// Where is the place of a released schedule, if it is among the last 65,536 that were released since the book was loaded.
func (b *Book) Where(number uint64) (Place, bool) { return b.released.get(number) }

// saw counts scheduled messages and their bytes.
func (b *Book) saw(messages, bytes int) {
	b.seen += int64(messages)
	b.seenBytes += int64(bytes)
}

// PendingBytes is about how many bytes of the journal the pending messages take, by the mean of those that were seen.
func (b *Book) PendingBytes() int64 {
	if b.seen == 0 {
		return 0
	}
	return int64(float64(b.seenBytes) / float64(b.seen) * float64(b.pending))
}

// find is the page of a pending number and its place in it, or nil.
func (b *Book) find(number uint64) (*page, int) {
	p := b.pages[number/pageSize]
	if p == nil {
		return nil, 0
	}
	i, ok := p.search(uint8(number % pageSize))
	if !ok {
		return nil, 0
	}
	return p, i
}

// NextDue is the first due time of those that are not near yet, or math.MaxInt64.
func (b *Book) NextDue() int64 {
	if len(b.order) == 0 {
		return math.MaxInt64
	}
	return b.order[0].min
}

// add makes a number pending.
func (b *Book) add(s mq.Schedule, at mq.Position) {
	key := s.Number / pageSize
	p := b.pages[key]
	if p == nil {
		p = newPage(key)
		b.pages[key] = p
		b.order.push(p)
	} else {
		b.state -= pageBytes(len(p.idx))
	}
	p.insert(uint8(s.Number%pageSize), s.Due, at)
	b.order.fix(p)
	b.state += pageBytes(len(p.idx))
	b.pending++
	b.next = max(b.next, s.Number+1)
}

// finish makes a number not pending any more; false if it was not.
func (b *Book) finish(number uint64) bool {
	p, i := b.find(number)
	if p == nil {
		return b.unwait(number)
	}
	if p.isNear(p.idx[i]) {
		b.taken--
	}
	b.state -= pageBytes(len(p.idx))
	p.remove(i)
	b.pending--
	delete(b.retimed, number)
	if len(p.idx) == 0 {
		b.order.remove(p)
		delete(b.pages, p.key)
		return true
	}
	b.state += pageBytes(len(p.idx))
	b.order.fix(p)
	return true
}

// move gives a pending number another due time.
func (b *Book) move(number uint64, due int64) {
	p, i := b.find(number)
	if p == nil {
		if b.waits(number) {
			b.retimed[number] = due
		}
		return
	}
	b.retimed[number] = due
	if p.isNear(p.idx[i]) {
		b.taken-- // what is in the near heap of it is stale now
		p.setNear(p.idx[i], false)
	}
	p.due[i] = due
	p.measure()
	b.order.fix(p)
}
