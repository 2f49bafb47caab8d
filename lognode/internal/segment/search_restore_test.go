package segment

// What lies within a copy may be broken while its node is down, with its last entry intact: the start knows how far the copy
// reached, and that something is missing. It answers unknown (R3) until what is broken is back from other copies, damaged or not,
// and is then what it was.

// breakSteps: a node starts again, and an entry before the last one of its copy is broken.
func (s *search) breakSteps(w *world, slot, n int, emit func(*world, step) bool) {
	x := &w.links[slot]
	p := &x.reps[n]
	if w.breaks >= s.breaks || p.damaged && p.gaps == 0 {
		return
	}
	for k := 0; k < x.index(p.r.Tail())-1; k++ {
		if p.gaps>>k&1 == 1 {
			continue
		}
		y := s.next(w)
		y.breaks++
		s.restart(y, n)
		z := &y.links[slot].reps[n]
		z.damaged, z.lost, z.held[k] = true, true, 0
		z.gaps |= 1 << k
		emit(y, step{doBreak, uint8(slot), uint8(n), uint8(k)})
	}
}

// restoreSteps: a damaged copy of a segment without an end gets back all that is broken in it, in one durable step. With the rule
// changed it answers with what is intact before everything is there.
func (s *search) restoreSteps(w *world, slot, n int, emit func(*world, step) bool) {
	x := &w.links[slot]
	p := &x.reps[n]
	if !p.damaged || p.gaps == 0 || p.r.End() != nil {
		return
	}
	y := s.next(w)
	z := &y.links[slot].reps[n]
	whole := x.index(p.r.Tail())
	for k := whole - 1; k >= 0; k-- {
		if p.gaps>>k&1 == 0 {
			continue
		}
		if z.held[k] = x.intact(n, k); z.held[k] == 0 {
			whole = k
		}
	}
	tail := x.at(whole)
	if tail != p.r.Tail() && !s.partlyRestored {
		return
	}
	z.damaged, z.lost, z.gaps = false, tail != p.r.Tail(), 0
	reload(x, z, tail, p.r.Flagged())
	emit(y, step{doRestore, uint8(slot), uint8(n), 0})
}

// intact are the contents of an entry in any other copy that has it, 0 if none does.
func (x *chainLink) intact(n, k int) uint8 {
	for m := range nodes {
		p := &x.reps[m]
		if m != n && x.holds(m) && p.known && (!p.damaged || p.gaps != 0) && p.gaps>>k&1 == 0 && x.at(k).Before(p.r.Tail()) {
			return p.held[k]
		}
	}
	return 0
}
