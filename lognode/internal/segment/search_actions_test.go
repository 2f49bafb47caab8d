package segment

import (
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// What may happen.
const (
	doServe uint8 = iota
	doPlace
	doReceive
	doDurable
	doHear
	doCrash
	doLoseSuffix
	doWipe
	doRefuse
	doLearnEnd
	doCopy
	doReadEtcd
	doRemove
	doStartSeal
	doSeal
	doCopyEarly
	doDecide
	doCreate
	doOpen
	doTimeOut
	doArrive
	doDie
	doProbe
	doFence
	doLose
	doRemake
	doBreak
	doRestore
)

// rules are the budgets of a configuration and what of the protocol is changed, nothing in the zero value.
type rules struct {
	crashes, lies, wipes uint8
	breaks               uint8      // entries that break within copies
	entries              [slots]int // most entries in each segment
	controllers          int
	unknown              bool // transactions may have an unknown outcome
	removal              bool // R5
	refusals             bool // full disks
	lacking              bool // it begins where a new leader lacks what only one holder has
	holes                bool // R6: what is lost may be judged, and lost copies are made anew

	oneAnswerFewer   bool // than |replicas| - q + 1
	flagForgotten    bool // by a crash
	lowestTail       bool // is the end
	copiesAck        bool // copied before the end is decided, and acknowledged
	emptiedSaysEmpty bool // a node that lost its directory
	queueAfterSeal   bool // what was queued is acknowledged after the seal was answered
	removeNoRevision bool // R5 without the revision
	leaderResumes    bool // after a restart
	shortIsBelieved  bool // a replica that silently lost a suffix
	copiesCount      bool // a copy after the end is decided is acknowledged to a leader that does not know that
	noFence          bool // stores answer leaders before the one that judged what is lost
	judgedByProbe    bool // what is lost, without sealing the copies
	holeTooEarly     bool // with as many holders away as acknowledge
	partlyRestored   bool // a damaged copy answers before all of it is back
	remadeAnswers    bool // a copy made anew counts as one that never had more
}

// successors emits every state that can follow w. emit returns false to stop.
func (s *search) successors(w *world, emit func(*world, step) bool) {
	for slot := range int(w.next) {
		if w.links[slot].state >= open {
			s.leaderSteps(w, slot, emit)
		}
		for n := range nodes {
			if w.links[slot].holds(n) {
				s.replicaSteps(w, slot, n, emit)
			}
		}
	}
	for n := range nodes {
		if w.crashes < s.crashes {
			y := s.next(w)
			y.crashes++
			s.restart(y, n)
			emit(y, step{doCrash, 0, uint8(n), 0})
		}
		if w.wipes < s.wipes {
			y := s.next(w)
			y.wipes++
			s.wipe(y, n)
			emit(y, step{doWipe, 0, uint8(n), 0})
		}
	}
	for c := range s.controllers {
		s.controllerSteps(w, c, emit)
	}
}

// leaderSteps: beginning to serve, placing an entry, hearing an acknowledgement.
func (s *search) leaderSteps(w *world, slot int, emit func(*world, step) bool) {
	x := &w.links[slot]
	if n := x.leader(); !x.leads && s.mayServe(w, slot, n) {
		y := s.next(w)
		y.serve(slot, n)
		emit(y, step{doServe, uint8(slot), uint8(n), 0})
	}
	if s.holes {
		s.suffixSteps(w, slot, x.leader(), emit)
	}
	if !x.leads {
		return
	}
	if k := x.index(x.l.Next()); !x.l.Sealed() && k < s.entries[slot] {
		y := s.next(w)
		y.place(slot, k)
		emit(y, step{doPlace, uint8(slot), uint8(k), 0})
	}
	for n := range nodes {
		if i := x.self(n); i >= 0 && x.l.Tail(i).Before(x.reps[n].ack) && !x.l.Next().Before(x.reps[n].ack) {
			y := s.next(w)
			y.hear(slot, i, x.reps[n].ack)
			emit(y, step{doHear, uint8(slot), uint8(n), 0})
		}
	}
}

// mayServe is what the loop asks before it leads: it is the named incarnation, its copy is fresh, and the chain
// before it is on a quorum.
func (s *search) mayServe(w *world, slot, n int) bool {
	x := &w.links[slot]
	if !s.named(w, slot, n) {
		return false
	}
	if s.holes {
		return w.enough(x)
	}
	return w.suffixHeld(x)
}

// named says whether a node's run is the leader of a segment that it can still begin to lead.
func (s *search) named(w *world, slot, n int) bool {
	x := &w.links[slot]
	return x.answers(n) && x.reps[n].r.Fresh() && uint64(w.boots[n]) == x.seg.Leader.Boot
}

func (w *world) suffixHeld(x *chainLink) bool {
	if x.prev < 0 {
		return true
	}
	last, holders := &w.links[x.prev], 0
	for m := range nodes {
		if last.answers(m) && !last.reps[m].r.Tail().Before(last.end) {
			holders++
		}
	}
	return holders >= last.seg.Quorum
}

// serve begins to lead. From here on consumers may see everything before the segment.
func (w *world) serve(slot, n int) {
	x := &w.links[slot]
	prev := x.seg.Base
	if x.prev >= 0 {
		last := &w.links[x.prev]
		prev = last.at(last.index(last.end) - 1)
		for m := range nodes {
			if last.answers(m) && !last.reps[m].r.Tail().Before(x.open.target) {
				w.acknowledge(last, x.open.target, last.reps[m].held)
				break
			}
		}
	}
	l, err := NewLeader(x.seg, prev, 0)
	if err != nil {
		w.broken = err.Error()
		return
	}
	copy(x.tails[:], l.tails)
	x.l, x.leads = *l, true
	w.bind()
	x.l.Chained()
}

// place gives the k-th entry its position; the leader's own copy takes it in the same moment.
func (w *world) place(slot, k int) {
	x := &w.links[slot]
	n := x.leader()
	e := mq.Entry{Count: count(k)}
	if err := x.l.Place(&e, 0); err != nil {
		w.broken = err.Error()
		return
	}
	x.mem[k] = 1 + uint8(slot)<<3 + w.boots[n]
	p := &x.reps[n]
	if !x.answers(n) || p.r.Offer(&e, x.seg.Leader) != Take {
		x.leads = false // the loop stops the partition
		return
	}
	p.held[k] = x.mem[k]
}

// hear lets an acknowledgement arrive. What it commits is answered to producers.
func (w *world) hear(slot, i int, tail mq.Position) {
	x := &w.links[slot]
	moved, err := x.l.Acked(i, tail)
	if err == nil {
		err = x.l.Check()
	}
	if err != nil {
		w.broken = err.Error()
		return
	}
	if moved {
		w.acknowledge(x, x.l.Commit(), x.mem)
	}
}

// acknowledge notes that somebody was answered for everything up to a position. I4: the same for ever.
func (w *world) acknowledge(x *chainLink, to mq.Position, contents [perSegment]uint8) {
	for k := 0; k < perSegment && x.at(k).Before(to); k++ {
		said := &w.said[code(x.at(k))]
		if *said != 0 && *said != contents[k] {
			w.broken = "I4: a position was acknowledged with two contents"
		}
		*said = contents[k]
	}
	if x.acked.Before(to) {
		x.acked = to
	}
	if x.hole && x.held.Before(to) {
		w.broken = fmt.Sprintf("R6: %s is acknowledged, which is recorded as lost from %s on", to, x.held)
	}
}

// replicaSteps: receiving, syncing, losing a suffix, learning the end, copies, removal.
func (s *search) replicaSteps(w *world, slot, n int, emit func(*world, step) bool) {
	x := &w.links[slot]
	p := &x.reps[n]
	if s.holes {
		s.remakeSteps(w, slot, n, emit)
	}
	if !p.known {
		return
	}
	s.breakSteps(w, slot, n, emit)
	s.restoreSteps(w, slot, n, emit)
	at := func(kind uint8) step { return step{kind, uint8(slot), uint8(n), 0} }
	if !p.damaged {
		s.diskSteps(w, slot, n, emit)
		k := x.index(p.r.Queued())
		if k < perSegment && x.mem[k] != 0 && !p.r.Sealing() && n != x.leader() {
			y := s.next(w)
			if e := x.entry(k); y.links[slot].reps[n].r.Offer(&e, x.seg.Leader) == Take {
				y.links[slot].reps[n].held[k] = x.mem[k]
				emit(y, at(doReceive))
			}
		}
		if x.state == sealed && p.r.End() == nil {
			y := s.next(w)
			if _, err := y.links[slot].reps[n].r.SetEnd(x.end); err != nil {
				y.broken = err.Error()
			}
			emit(y, at(doLearnEnd))
		}
		s.copySteps(w, slot, n, emit)
	}
	if s.removal {
		s.removeSteps(w, slot, n, emit)
	}
}

// copySteps is the repair of a suffix: the next entry from a replica that has it, once the end is decided.
func (s *search) copySteps(w *world, slot, n int, emit func(*world, step) bool) {
	x := &w.links[slot]
	p := &x.reps[n]
	k := x.index(p.r.Queued())
	if p.r.End() == nil || k == perSegment {
		return
	}
	for m := range nodes {
		if m == n || !x.answers(m) || !x.at(k).Before(x.reps[m].r.Tail()) {
			continue
		}
		y := s.next(w)
		if e := x.entry(k); y.links[slot].reps[n].r.Copied(&e) == Take {
			y.links[slot].reps[n].held[k] = x.reps[m].held[k]
			emit(y, step{doCopy, uint8(slot), uint8(n), uint8(m)})
		}
		return // I3: it does not matter from whom
	}
}

// removeSteps is R5 in two steps, as the node does it: what it read of etcd may be old when it removes.
func (s *search) removeSteps(w *world, slot, n int, emit func(*world, step) bool) {
	x := &w.links[slot]
	unnamed := x.state == proposed || x.state == replaced
	passed := int64(w.rev) > x.seg.Compared || s.removeNoRevision
	if unnamed && passed && !x.reps[n].removing {
		y := s.next(w)
		y.links[slot].reps[n].removing = true
		emit(y, step{doReadEtcd, uint8(slot), uint8(n), 0})
	}
	if x.reps[n].removing {
		y := s.next(w)
		y.links[slot].reps[n] = replica{ack: x.reps[n].ack}
		emit(y, step{doRemove, uint8(slot), uint8(n), 0})
	}
}
