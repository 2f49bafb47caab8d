package segment

import "github.com/splashdam/splashdam/shared/mq"

// controllerSteps: a controller reads the head, seals, decides, has the next segment made, and opens it with one
// compare-and-swap. It may stop anywhere, and the swap may be applied later than it knows.
func (s *search) controllerSteps(w *world, c int, emit func(*world, step) bool) {
	k := &w.ctls[c]
	with := func(kind uint8, node, x int) step { return step{kind, uint8(c), uint8(node), uint8(x)} }
	switch k.phase {
	case idle:
		y := s.next(w)
		y.ctls[c].phase, y.ctls[c].seg, y.ctls[c].rev = sealing, w.cur, w.rev
		emit(y, with(doStartSeal, 0, 0))
	case sealing:
		s.sealSteps(w, c, emit)
	case creating:
		s.openSteps(w, c, emit)
	}
	if k.phase == creating || k.phase == sealing && k.rev != w.rev { // one that dies earlier is one that stalls
		y := s.next(w)
		y.ctls[c].stop()
		emit(y, with(doDie, 0, 0))
	}
	if k.flying {
		y := s.next(w)
		y.swap(int(k.flySeg), int(k.flySlot), k.flyEnd)
		emit(y, with(doArrive, 0, 0))
	}
}

// stop forgets what the controller was doing, but for a transaction on its way.
func (k *controller) stop() {
	*k = controller{flying: k.flying, flySeg: k.flySeg, flySlot: k.flySlot, flyRev: k.flyRev, flyEnd: k.flyEnd}
}

func (s *search) sealSteps(w *world, c int, emit func(*world, step) bool) {
	k := &w.ctls[c]
	x := &w.links[k.seg]
	for n := range nodes {
		if k.answered>>n&1 == 1 || !x.answers(n) {
			continue
		}
		y := s.next(w)
		if s.seal(y, c, n) {
			emit(y, step{doSeal, uint8(c), uint8(n), 0})
		}
	}
	end, ok := s.ended(x, k)
	if !ok {
		return
	}
	if s.copiesAck {
		s.earlyCopies(w, c, end, emit)
	}
	if w.next == slots {
		return
	}
	for n := range nodes {
		if k.answered>>n&1 == 0 || k.tails[n] != end {
			continue
		}
		for _, set := range [...]uint8{7, 1<<n | 1<<((n+1)%nodes)} { // everybody, or a quorum
			y := s.next(w)
			y.decide(c, end, n, set)
			emit(y, step{doDecide, uint8(c), uint8(n), set})
		}
	}
}

// seal delivers the order to one replica; false if it changes nothing.
func (s *search) seal(w *world, c, n int) bool {
	k := &w.ctls[c]
	x := &w.links[k.seg]
	r := &x.reps[n].r
	before := r.Sealing()
	if r.Seal(); x.leads && x.leader() == n {
		x.l.Seal()
	}
	if !r.Settled() && !s.queueAfterSeal {
		return !before // it answers when what is queued is durable
	}
	r.SetFlagged()
	k.answered |= 1 << n
	k.tails[n] = r.Tail()
	return true
}

// ended is mq.Segment.Ended over the answers, or what a mutation makes of it.
func (s *search) ended(x *chainLink, k *controller) (mq.Position, bool) {
	seg := x.seg
	if s.oneAnswerFewer {
		seg.Quorum++
	}
	clear(s.answers)
	lowest := positions[len(positions)-1]
	for n := range nodes {
		if k.answered>>n&1 == 1 {
			s.answers[storeNames[n]] = k.tails[n]
			if k.tails[n].Before(lowest) {
				lowest = k.tails[n]
			}
		}
	}
	end, ok := seg.Ended(s.answers)
	if s.lowestTail {
		end = lowest
	}
	return end, ok
}

// earlyCopies is the mutation: copying before the transaction decides, and acknowledging that.
func (s *search) earlyCopies(w *world, c int, end mq.Position, emit func(*world, step) bool) {
	k := &w.ctls[c]
	x := &w.links[k.seg]
	for n := range nodes {
		if k.answered>>n&1 == 0 || !k.tails[n].Before(end) {
			continue
		}
		for m := range nodes {
			if k.answered>>m&1 == 1 && k.tails[m] == end && x.answers(m) && x.answers(n) {
				y := s.next(w)
				p := &y.links[k.seg].reps[n]
				p.held = x.reps[m].held
				p.r.tail, p.r.queued, p.ack = end, end, end
				y.ctls[c].tails[n] = end
				emit(y, step{doCopyEarly, uint8(c), uint8(n), uint8(m)})
				break
			}
		}
	}
}

// decide plans the next segment: its base is the end, its leader one that answered the end.
func (w *world) decide(c int, end mq.Position, leader int, set uint8) {
	k := &w.ctls[c]
	k.phase, k.slot, k.made, k.end = creating, w.next, 0, end
	k.answered, k.tails = 0, [nodes]mq.Position{}
	x := &w.links[w.next]
	x.state, x.seg = proposed, segmentOf(int(w.next), uint8(w.links[k.seg].seg.Number)+1, end, set, leader, w.boots[leader], k.rev)
	w.next++
}

func (s *search) openSteps(w *world, c int, emit func(*world, step) bool) {
	k := &w.ctls[c]
	x := &w.links[k.slot]
	for n := range nodes {
		if x.holds(n) && k.made>>n&1 == 0 { // in any one order: nobody looks at a replica that no chain names, but R5
			y := s.next(w)
			y.ctls[c].made |= 1 << n
			y.fences[n] = max(y.fences[n], uint8(x.seg.Number))
			y.links[k.slot].reps[n] = replica{known: true, r: *NewReplica(x.seg, x.seg.Base, x.seg.Base, false, nil)}
			emit(y, step{doCreate, uint8(c), uint8(n), 0})
			return
		}
	}
	y := s.next(w)
	seg, slot, end := int(k.seg), int(k.slot), k.end
	y.ctls[c].stop()
	if k.rev == w.rev {
		y.swap(seg, slot, end)
	}
	emit(y, step{doOpen, uint8(c), 0, 0})
	if s.unknown && k.rev == w.rev && !k.flying {
		y := s.next(w)
		y.ctls[c].stop()
		f := &y.ctls[c]
		f.flying, f.flySeg, f.flySlot, f.flyRev, f.flyEnd = true, k.seg, k.slot, k.rev, end
		emit(y, step{doTimeOut, uint8(c), 0, 0})
	}
}

// swap is the transaction: sealed(end), and the next is open. An empty segment is replaced, not chained.
func (w *world) swap(seg, slot int, end mq.Position) {
	x, next := &w.links[seg], &w.links[slot]
	x.state, x.end = sealed, end
	next.prev = int8(seg)
	if end == x.seg.Base {
		x.state, next.prev = replaced, x.prev
	}
	next.state = open
	if next.prev >= 0 {
		last := &w.links[next.prev]
		if next.open.target = last.end; last.hole {
			next.open.target = last.held
		}
	}
	w.cur = uint8(slot)
	w.rev++
	w.landed()
}

// landed: transactions that compare an older revision can't be applied any more.
func (w *world) landed() {
	for i := range w.ctls {
		if w.ctls[i].flying {
			w.ctls[i].flying = false
		}
	}
}
