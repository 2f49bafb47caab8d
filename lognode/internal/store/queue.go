package store

import (
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// Append is one entry to write. At and Next are the entry's own (Next = At.Next(Count)).
type Append struct {
	Segment  mq.SegmentID
	At, Next mq.Position
	// Data is the encoded entry; it must not change until Done was called.
	Data []byte
	// Done is called once, on the committer's goroutine, in the order of the appends: with nil when the
	// entry is synced, else with why it is not and will not be: ErrSealed, ErrOutOfOrder, ErrUnknownSegment,
	// ErrDamaged and ErrStorageFull concern this entry only (those behind it in its segment then don't follow
	// and get ErrOutOfOrder), anything else is the store's end. It must not block and must not call a method
	// that waits for the committer (Close, CreateSegments, SealSegments, SetEnd, RemoveSegments).
	Done func(err error)
	// into is the copy of the segment that takes it, if that is a replacement.
	into *segment
}

// job is something for the committer: an append, or a step that takes its place in the order of appends.
type job struct {
	entry Append
	size  int64
	came  time.Time
	// step, if set, is called alone: with nil, or with why the store can't go on.
	step func(err error)
}

// entryOverhead is counted for each queued append beside its bytes, so that tiny ones are bounded too.
const entryOverhead = 128

// queue is what waits for the committer. Appends beyond max bytes are refused (ErrBusy): the bound counts
// until Done was called, so it bounds the memory that the store holds on to. Steps are always taken: their callers
// wait for them, one each.
type queue struct {
	max int64

	mu     sync.Mutex
	cond   *sync.Cond
	jobs   []job
	head   int
	bytes  int64
	oldest time.Time // came of the first of those that were taken and are not done; zero if there are none
	closed bool
}

func newQueue(max int64) *queue {
	q := &queue{max: max}
	q.cond = sync.NewCond(&q.mu)
	return q
}

// push queues all of the appends or none.
func (q *queue) push(appends []Append) error {
	var size int64
	for i := range appends {
		size += int64(len(appends[i].Data)) + entryOverhead
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	// An empty queue takes anything, else one large call could never pass.
	if q.bytes > 0 && q.bytes+size > q.max {
		return ErrBusy
	}
	q.bytes += size
	now := time.Now()
	for i := range appends {
		q.jobs = append(q.jobs, job{entry: appends[i], size: int64(len(appends[i].Data)) + entryOverhead, came: now})
	}
	q.cond.Signal()
	return nil
}

// pushStep queues a step behind all appends queued before.
func (q *queue) pushStep(step func(err error)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	q.jobs = append(q.jobs, job{step: step, came: time.Now()})
	q.cond.Signal()
	return nil
}

// take waits for work and appends to group what one transaction may hold, or one step. It returns an empty
// group when the queue is closed and empty.
func (q *queue) take(group []job) []job {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.jobs) && !q.closed {
		q.cond.Wait()
	}
	var size int64
	if q.head < len(q.jobs) {
		q.oldest = q.jobs[q.head].came
	}
	for q.head < len(q.jobs) && len(group) < groupEntries {
		j := q.jobs[q.head]
		size += int64(len(j.entry.Data))
		if len(group) > 0 && (j.step != nil || size > groupBytes) {
			break
		}
		q.jobs[q.head] = job{} // lets go of Data
		q.head++
		group = append(group, j)
		if j.step != nil {
			break
		}
	}
	switch {
	case q.head == len(q.jobs):
		q.jobs, q.head = q.jobs[:0], 0
	case q.head > 1024 && q.head > len(q.jobs)/2:
		n := copy(q.jobs, q.jobs[q.head:])
		clear(q.jobs[n:])
		q.jobs, q.head = q.jobs[:n], 0
	}
	return group
}

// done gives the bytes of answered jobs back.
func (q *queue) done(group []job) {
	var size int64
	for i := range group {
		size += group[i].size
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= size
	q.oldest = time.Time{}
}

// waited is how long the oldest job has waited that is queued or under way, 0 if there is none.
func (q *queue) waited(now time.Time) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case !q.oldest.IsZero():
		return now.Sub(q.oldest)
	case q.head < len(q.jobs):
		return now.Sub(q.jobs[q.head].came)
	}
	return 0
}

// waiting is how many bytes are queued or under way.
func (q *queue) waiting() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.cond.Broadcast()
}
