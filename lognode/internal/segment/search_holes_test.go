package segment

import (
	"fmt"
	"math/bits"

	"github.com/splashdam/splashdam/shared/mq"
)

// This file is rule R6 in the search: a new leader asks the holders of the last segment one after the other, serves when
// a quorum has what it read as the end, and may judge what is left behind a fence (Spread, Lost and mq.Named are the
// code's). Leaders that are deposed meanwhile go on as long as they are answered.

// opening is what a leader that does not serve yet has heard about the segment before its own.
type opening struct {
	target mq.Position // where that one's entries end, as the leader read it
	whole  uint8       // nodes that answered that they have it up to there
	judged uint8       // nodes that answered behind the fence
	own    uint8       // of those, whose copies are those that they always had
	held   mq.Position // the highest tail of those
}

// lackingWorld is firstWorld some steps on: segment 0 ended behind an entry that only n0 has, its leader, which does not know
// that; segment 1 is open on n0 and n1, and n0 is to lead it.
func lackingWorld() *world {
	w := firstWorld()
	x, next := &w.links[0], &w.links[1]
	w.serve(0, 0)
	w.place(0, 0)
	p := &x.reps[0]
	p.r.tail = p.r.queued
	w.hear(0, 0, p.r.Tail())
	for n := range 2 {
		x.reps[n].r.SetFlagged()
	}
	x.l.Seal()
	next.state, next.seg = proposed, segmentOf(1, 2, p.r.Tail(), 1<<0|1<<1, 0, 0, w.rev)
	for n := range 2 {
		w.fences[n] = 2
		next.reps[n] = replica{known: true, r: *NewReplica(next.seg, next.seg.Base, next.seg.Base, false, nil)}
	}
	w.next = 2
	w.swap(0, 1, p.r.Tail())
	return w
}

// before is the segment that a leader has to bring to a quorum; nil if there is none.
func (w *world) before(x *chainLink) *chainLink {
	if x.prev < 0 {
		return nil
	}
	return &w.links[x.prev]
}

// admitted says whether a node answers the leader of a segment, or its fence refuses it.
func (s *search) admitted(w *world, x *chainLink, n int) bool {
	return s.noFence || mq.Named{Number: uint64(w.fences[n])}.Admits(x.seg.Number)
}

// suffixSteps: an opening leader probes a holder, fences one, or records what is lost.
func (s *search) suffixSteps(w *world, slot, n int, emit func(*world, step) bool) {
	x := &w.links[slot]
	last := w.before(x)
	if last == nil || x.leads || !s.named(w, slot, n) {
		return
	}
	for m := range nodes {
		if !last.answers(m) || !s.admitted(w, x, m) {
			continue
		}
		if x.open.whole>>m&1 == 0 && !last.reps[m].r.Tail().Before(x.open.target) {
			y := s.next(w)
			y.links[slot].open.whole |= 1 << m
			emit(y, step{doProbe, uint8(slot), uint8(m), 0})
		}
		if w.cur == uint8(slot) && x.open.judged>>m&1 == 0 {
			y := s.next(w)
			if s.fence(y, slot, m) {
				emit(y, step{doFence, uint8(slot), uint8(m), 0})
			}
		}
	}
	if w.cur == uint8(slot) && x.open.judged != 0 {
		y := s.next(w)
		if s.lose(y, slot) {
			emit(y, step{doLose, uint8(slot), uint8(n), 0})
		}
	}
}

// fence has a holder seal its copy and refuse earlier leaders, and hears its tail; false if nothing changes.
func (s *search) fence(w *world, slot, m int) bool {
	x := &w.links[slot]
	p := &w.before(x).reps[m]
	before, was := p.r.Sealing(), w.fences[m]
	w.fences[m] = max(was, uint8(x.seg.Number))
	if p.r.Seal(); s.judgedByProbe {
		p.r.sealing = before
	} else if !p.r.Settled() {
		return !before || was != w.fences[m] // it answers when what is queued is durable
	} else {
		p.r.SetFlagged()
	}
	x.open.judged |= 1 << m
	if !p.remade || s.remadeAnswers {
		x.open.own |= 1 << m
	}
	if x.open.held.Before(p.r.Tail()) {
		x.open.held = p.r.Tail()
	}
	return true
}

// lose is the transaction that records what is lost, compared with the head that names the leader; false if nothing is.
func (s *search) lose(w *world, slot int) bool {
	x := &w.links[slot]
	last := w.before(x)
	seg := last.seg
	seg.Sealed, seg.End = true, last.end
	if last.hole {
		seg.Held = &last.held
	}
	if s.holeTooEarly {
		seg.Quorum++
	}
	s.holders = s.holders[:0]
	for _, r := range seg.Holders() {
		m := nodeOf(r.Store)
		s.holders = append(s.holders, Found{Tail: x.open.held, Known: x.open.judged>>m&1 == 1, Remade: x.open.own>>m&1 == 0})
	}
	held, below, _, err := Lost(&seg, s.holders, nil)
	if err != nil || !below {
		return false
	}
	last.hole, last.held = true, held
	if held.Before(last.acked) {
		w.broken = fmt.Sprintf("R6: %s was acknowledged and is recorded as lost from %s on", last.acked, held)
	}
	x.open = opening{target: held}
	w.rev++
	w.landed()
	return true
}

// remakeSteps is the repair of a copy that is damaged or gone: a new, empty one takes copies.
func (s *search) remakeSteps(w *world, slot, n int, emit func(*world, step) bool) {
	x := &w.links[slot]
	if p := &x.reps[n]; x.state != sealed || !p.lost || p.known && !p.damaged {
		return
	}
	y := s.next(w)
	y.links[slot].reps[n] = replica{known: true, lost: true, remade: true, ack: x.reps[n].ack,
		r: *NewReplica(x.seg, x.seg.Base, x.seg.Base, true, &positions[code(x.end)])}
	emit(y, step{doRemake, uint8(slot), uint8(n), 0})
}

func nodeOf(store mq.StoreID) int {
	for n := range nodes {
		if storeNames[n] == store {
			return n
		}
	}
	panic("no node has store " + store)
}

// enough says whether an opening leader has heard of a quorum of whole copies, and can still read one.
func (w *world) enough(x *chainLink) bool {
	last := w.before(x)
	if last == nil {
		return true
	}
	for m := range nodes {
		if last.answers(m) && !last.reps[m].r.Tail().Before(x.open.target) {
			return bits.OnesCount8(x.open.whole) >= last.seg.Quorum
		}
	}
	return false
}
