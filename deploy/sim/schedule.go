package sim

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// Everything in a simulation happens in one goroutine, in the order of time and then of scheduling; every choice is
// drawn from one source. So a seed is a run.

type event struct {
	at  int64
	due int64 // at, but for what a frozen process put off
	seq uint64
	p   *process // nil: of the world, not of a process
	gen int
	f   func()
}

// events is a heap by time, then by when they were due, then by the order of scheduling: what waits for a frozen process
// comes in order, also if the process was frozen again meanwhile.
type events []event

func (h events) less(i, j int) bool {
	a, b := &h[i], &h[j]
	return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.due, b.due), cmp.Compare(a.seq, b.seq)) < 0
}

func (h *events) push(e event) {
	*h = append(*h, e)
	q := *h
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.less(i, up) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (h *events) pop() event {
	q := *h
	first, last := q[0], len(q)-1
	q[0], q[last] = q[last], event{}
	q = q[:last]
	*h = q
	for i := 0; ; {
		low := 2*i + 1
		if low >= len(q) {
			return first
		}
		if low+1 < len(q) && q.less(low+1, low) {
			low++
		}
		if !q.less(low, i) {
			return first
		}
		q[i], q[low] = q[low], q[i]
		i = low
	}
}

// process is something that can crash, freeze, and be cut off.
type process struct {
	id     int
	name   string
	up     bool
	gen    int   // rises at each start and end: what was meant for an earlier run is dropped
	frozen int64 // until then nothing in it runs
	offset int64 // of its clock
	drift  int64 // of its clock, in parts per million
	slow   int64 // until then messages to and from it take long
	lossy  int64 // until then calls to and from it may be lost
}

func (p *process) start() { p.up, p.gen, p.frozen = true, p.gen+1, 0 }
func (p *process) end()   { p.up, p.gen = false, p.gen+1 }

// freeze is a SIGSTOP until a time. It is never shortened, so that what waits for the process comes in order.
func (p *process) freeze(until int64) { p.frozen = max(p.frozen, until) }

const (
	second      = int64(time.Second)
	millisecond = int64(time.Millisecond)
	epoch       = 1_700_000_000 * second
)

// scheduler holds what will happen.
type scheduler struct {
	now   int64 // true time since the beginning, nanoseconds
	queue events
	seq   uint64
	rng   *rand.Rand
	ran   int
}

func newScheduler(seed uint64) *scheduler {
	return &scheduler{rng: rand.New(rand.NewPCG(seed, 0x5ea1))}
}

// in schedules f in d; for a process only as long as this run of it lives.
func (s *scheduler) in(d int64, p *process, f func()) {
	s.seq++
	at := s.now + max(d, 0)
	e := event{at: at, due: at, seq: s.seq, p: p, f: f}
	if p != nil {
		e.gen = p.gen
	}
	s.queue.push(e)
}

// step runs the next event; false if there is none before the time.
func (s *scheduler) step(until int64) bool {
	if len(s.queue) == 0 || s.queue[0].at > until {
		s.now = max(s.now, until)
		return false
	}
	e := s.queue.pop()
	s.now = max(s.now, e.at)
	switch {
	case e.p == nil:
	case e.p.gen != e.gen:
		return true
	case e.p.frozen > s.now:
		e.at = e.p.frozen
		s.queue.push(e)
		return true
	}
	s.ran++
	e.f()
	return true
}

// clock is what a process takes for the time (Unix nanoseconds).
func (s *scheduler) clock(p *process) int64 {
	return epoch + s.now + s.now/1_000_000*p.drift + p.offset
}

// steady is a process's clock that only counts on, whatever happens to the one on the wall. Like that it may drift.
func (s *scheduler) steady(p *process) int64 { return epoch + s.now + s.now/1_000_000*p.drift }

func (s *scheduler) chance(percent int) bool { return s.rng.IntN(100) < percent }

// between draws a duration.
func (s *scheduler) between(low, high int64) int64 { return low + s.rng.Int64N(high-low+1) }
