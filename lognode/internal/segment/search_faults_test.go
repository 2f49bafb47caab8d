package segment

import "github.com/splashdam/splashdam/shared/mq"

// diskSteps: the next queued entry becomes durable, a full disk refuses what is queued, or a durable entry is silently
// lost.
func (s *search) diskSteps(w *world, slot, n int, emit func(*world, step) bool) {
	x := &w.links[slot]
	p := &x.reps[n]
	if p.r.Tail().Before(p.r.Queued()) {
		y := s.next(w)
		s.durable(y, slot, n, x.at(x.index(p.r.Tail())+1))
		emit(y, step{doDurable, uint8(slot), uint8(n), 0})
	}
	if s.refusals && n != x.leader() && p.r.Tail().Before(p.r.Queued()) {
		y := s.next(w)
		z := &y.links[slot].reps[n]
		z.r.Unqueue(p.r.Tail())
		for k := x.index(p.r.Tail()); k < perSegment; k++ {
			z.held[k] = 0
		}
		emit(y, step{doRefuse, uint8(slot), uint8(n), 0})
	}
	if w.lies < s.lies && x.seg.Base.Before(p.r.Tail()) {
		y := s.next(w)
		y.lies++
		s.restart(y, n)
		s.loseSuffix(&y.links[slot], n)
		emit(y, step{doLoseSuffix, uint8(slot), uint8(n), 0})
	}
}

// durable moves a copy's tail and sends the acknowledgement: the leader hears its own at once.
func (s *search) durable(w *world, slot, n int, tail mq.Position) {
	x := &w.links[slot]
	p := &x.reps[n]
	if err := p.r.Durable(tail); err != nil {
		w.broken = err.Error()
		return
	}
	if n != x.leader() {
		if p.ack = p.r.Acknowledged(); s.copiesCount {
			p.ack = p.r.Tail()
		}
	} else if x.leads && !x.l.Next().Before(tail) {
		w.hear(slot, x.self(n), p.r.Tail())
	}
}

// restart is a crash and a start: what is not durable is gone, and with it the loops of the leaders.
func (s *search) restart(w *world, n int) {
	w.boots[n]++
	for i := range int(w.next) {
		x := &w.links[i]
		p := &x.reps[n]
		if !x.holds(n) {
			continue
		}
		if p.removing = false; p.known {
			reload(x, p, p.r.Tail(), p.r.Flagged() && !s.flagForgotten)
		}
		if x.leader() != n || !x.leads {
			continue
		}
		x.leads = false
		if s.leaderResumes && x.state == open && !p.damaged {
			s.resume(w, x, n)
		}
	}
}

// reload takes up a copy as the disk has it.
func reload(x *chainLink, p *replica, tail mq.Position, flagged bool) {
	k := x.index(tail)
	for i := k; i < perSegment; i++ {
		p.held[i] = 0
	}
	last := x.seg.Base
	if k > 0 {
		last = x.at(k - 1)
	}
	p.r = *NewReplica(x.seg, tail, last, flagged, p.r.End())
}

// resume is the mutation: the restarted node goes on with its segment from what its disk has.
func (s *search) resume(w *world, x *chainLink, n int) {
	l, err := NewLeader(x.seg, x.seg.Base, 0)
	if err != nil {
		w.broken = err.Error()
		return
	}
	p := &x.reps[n]
	copy(x.tails[:], l.tails)
	x.l, x.leads, x.mem = *l, true, p.held
	x.l.next, x.l.prev, x.l.chained = p.r.tail, p.r.prev, true
	w.bind()
	x.tails[x.self(n)] = p.r.tail
}

// loseSuffix takes the last durable entry of a copy without a word. The ledger notices (R3), unless the rules say
// that the copy is believed.
func (s *search) loseSuffix(x *chainLink, n int) {
	p := &x.reps[n]
	p.lost = true
	if !s.shortIsBelieved {
		p.damaged = true
		return
	}
	reload(x, p, x.at(x.index(p.r.Tail())-1), p.r.Flagged())
}

// wipe gives a node an empty directory. Of what it held before it knows nothing: it answers unknown.
func (s *search) wipe(w *world, n int) {
	s.restart(w, n)
	for i := range int(w.next) {
		x := &w.links[i]
		p := &x.reps[n]
		if !x.holds(n) || !p.known {
			continue
		}
		*p = replica{ack: p.ack, lost: true}
		if s.emptiedSaysEmpty {
			p.known, p.r = true, *NewReplica(x.seg, x.seg.Base, x.seg.Base, false, nil)
		}
	}
}
