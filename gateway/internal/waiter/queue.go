package waiter

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// key names a queue: consumers of one group wait together.
type key struct {
	topic mq.TopicID
	group mq.GroupID
}

// queue is what is known of one group's partitions, and who waits for them, oldest first. Guarded by
// Manager.mu.
//
// Invariant: of each partition, no more waiters are awake than messages are believed to be ready, and
// after dispatch no fewer while somebody is parked who takes that partition. So a hint is never lost: it
// stays in ready until a leader's answer says otherwise, whoever gives up meanwhile (museum 29).
type queue struct {
	key   key
	parts []part // by partition number
	// head and tail are the parked waiters by seq.
	head, tail *Waiter
	nextSeq    uint64
	waiters    int       // joined and not left, parked or not
	all        int       // of them, those that take every partition
	used       time.Time // when somebody last used it
	topic      *topicWakes
	seen       bool          // the metadata has had this group, see End
	gone       chan struct{} // closed when the group or its topic was deleted
}

// part is a partition of a queue.
type part struct {
	ready  uint64 // believed to be ready; only answers and hints change it
	stamp  uint64 // rises with each hint, so that an answer to an older question does not undo it
	awake  int    // waiters woken for it that have neither parked again nor left
	takers int    // waiters that take this one and not every one
}

// arrive and depart count who takes what: leaders are not asked about a partition that no waiter takes. arrive says whether
// there is one now that they were not asked about.
func (q *queue) arrive(w *Waiter) (more bool) {
	q.waiters++
	if w.only == nil {
		q.all++
		return q.all == 1
	}
	for _, p := range w.only {
		if int(p) < len(q.parts) {
			q.parts[p].takers++
			w.counted = append(w.counted, p)
			more = more || q.all == 0 && q.parts[p].takers == 1
		}
	}
	return more
}

func (q *queue) depart(w *Waiter) {
	q.waiters--
	if w.only == nil {
		q.all--
	}
	for _, p := range w.counted {
		q.parts[p].takers--
	}
}

// Waiter is one receive call that waits, or a stream. Its methods are for its own goroutine.
type Waiter struct {
	m       *Manager
	q       *queue
	only    []uint32 // the partitions it takes, nil for all
	counted []uint32 // of them, those that its queue counts it for
	seq     uint64
	wake    chan struct{} // capacity 1
	ready   uint32        // guarded by m.mu: the partition it was woken for, if hinted

	hinted, parked bool // guarded by m.mu
	prev, next     *Waiter
}

func (w *Waiter) takes(p uint32) bool { return w.only == nil || slices.Contains(w.only, p) }

// hint says that n messages of a partition are ready.
func (q *queue) hint(p uint32, n uint64) {
	if int64(p) >= int64(len(q.parts)) || n == 0 {
		return
	}
	q.parts[p].stamp++
	q.parts[p].ready = max(q.parts[p].ready, n)
	q.dispatch()
}

// answered records what a leader said is left, to a question that was asked at stamp.
func (q *queue) answered(p uint32, stamp, more uint64) {
	if int64(p) >= int64(len(q.parts)) {
		return
	}
	if x := &q.parts[p]; x.stamp == stamp {
		x.ready = more
	} else {
		x.ready = max(x.ready, more, 1)
	}
	q.dispatch()
}

// dispatch wakes the oldest parked waiters while messages are ready that nobody was woken for.
func (q *queue) dispatch() {
	for p := range q.parts {
		for x := &q.parts[p]; x.ready > uint64(x.awake); {
			w := q.oldest(uint32(p))
			if w == nil {
				break
			}
			q.unlink(w)
			w.ready, w.hinted = uint32(p), true
			x.awake++
			w.wake <- struct{}{} // has room: it was taken by the waiter that parked
		}
	}
}

func (q *queue) oldest(p uint32) *Waiter {
	for w := q.head; w != nil; w = w.next {
		if w.takes(p) {
			return w
		}
	}
	return nil
}

// park puts a waiter in its place by seq. Who was just woken is near the front.
func (q *queue) park(w *Waiter) {
	q.asleep(w)
	after := q.tail
	if q.head == nil || w.seq < q.head.seq {
		after = nil
	} else if q.tail.seq > w.seq {
		after = q.head
		for after.next != nil && after.next.seq < w.seq {
			after = after.next
		}
	}
	w.prev, w.parked = after, true
	if after == nil {
		w.next, q.head = q.head, w
	} else {
		w.next, after.next = after.next, w
	}
	if w.next == nil {
		q.tail = w
	} else {
		w.next.prev = w
	}
}

func (q *queue) unlink(w *Waiter) {
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.parked = nil, nil, false
}

// untaken takes a wake-up back that its waiter did not see.
func (q *queue) untaken(w *Waiter) {
	select {
	case <-w.wake:
	default:
	}
}

// asleep takes back that a waiter is awake for a partition.
func (q *queue) asleep(w *Waiter) {
	if w.hinted {
		q.parts[w.ready].awake--
		w.hinted = false
	}
}

// order is the partitions to ask: by how much is believed to be ready, the rest from a random start.
func (q *queue) order(only []uint32, dst []uint32) []uint32 {
	n := len(q.parts)
	if only != nil {
		dst = append(dst, only...)
		n = len(only)
	} else {
		for p := range n {
			dst = append(dst, uint32(p))
		}
	}
	if n < 2 {
		return dst
	}
	start := rand.IntN(n)
	slices.Reverse(dst[:start]) // a rotation in place
	slices.Reverse(dst[start:])
	slices.Reverse(dst)
	slices.SortStableFunc(dst, func(a, b uint32) int {
		x, y := q.known(a), q.known(b)
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	return dst
}

func (q *queue) known(p uint32) uint64 {
	if int64(p) >= int64(len(q.parts)) {
		return 0
	}
	return q.parts[p].ready
}
