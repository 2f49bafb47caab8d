package simulate

import (
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
)

// Fence says for which segment of a partition somebody acts; see mqpb.Named. Nil is somebody who acts for none.
type Fence struct {
	Partition mq.PartitionID
	mq.Named
}

// Force is an operator's word that a partition goes on with what is left.
type Force = segment.Force

// follows is replica.Env.Follows.
func (n *Node) follows(f *Fence) bool {
	return f == nil || n.disk.named[f.Partition].Admits(f.Number)
}

// suffix is the twin of replica's: what a new leader does about the sealed segments before its own.
type suffix struct {
	p     *partition
	fence *Fence
}

// repair brings the last sealed segment to its quorum before anything is built on it. Once the answers show that a quorum has it
// those that are silent are not waited for; they get what they lack when they have answered.
func (x *suffix) repair(s *mq.Segment, done func(error)) {
	all := s.Holders()
	whole := false
	x.ask(all, func(r mq.Replica, found func(segment.Found)) { x.tailOf(s, r, found) }, func(found []segment.Found, left int) {
		lacking, behind := segment.Spread(s, found)
		if lacking == 0 && !whole {
			whole = true
			done(nil)
		}
		switch {
		case left > 0:
		case whole:
			x.catchUp(s, all, found, behind)
		default:
			x.spread(s, all, found, lacking, behind, done)
		}
	})
}

// catchUp gives holders what they lack, beside.
func (x *suffix) catchUp(s *mq.Segment, all []mq.Replica, found []segment.Found, behind []int) {
	for _, i := range behind {
		x.copyTo(s, all[i], found[i].Tail, func(error) {})
	}
}

func (x *suffix) spread(s *mq.Segment, all []mq.Replica, found []segment.Found, lacking int, behind []int, done func(error)) {
	if lacking == 0 {
		done(nil)
		x.catchUp(s, all, found, behind)
		return
	}
	if len(behind) == 0 {
		done(fmt.Errorf("segment %d up to %s lacks %d of %d copies", s.ID, s.DataEnd(), lacking, s.Quorum))
		return
	}
	x.copyTo(s, all[behind[0]], found[behind[0]].Tail, func(err error) {
		if err == nil {
			lacking--
		}
		x.spread(s, all, found, lacking, behind[1:], done)
	})
}

// ask asks all holders; one that does not answer in time is not known. With each answer heard is told what is found, and how
// many are still to come.
func (x *suffix) ask(all []mq.Replica, one func(mq.Replica, func(segment.Found)), heard func(found []segment.Found, left int)) {
	found := make([]segment.Found, len(all))
	left := len(all)
	if left == 0 {
		heard(found, left)
	}
	for i, r := range all {
		one(r, func(f segment.Found) {
			found[i] = f
			left--
			heard(found, left)
		})
	}
}

// call asks the node of a replica, if its store is still there.
func (x *suffix) call(r mq.Replica, run func(n *Node, reply func(State)), found func(segment.Found)) {
	x.p.node.host.Call(r, func(n *Node, reply func(any)) {
		if n.self.Store != r.Store {
			reply(State{})
			return
		}
		run(n, func(s State) { reply(s) })
	}, func(res any, _ bool) {
		st, _ := res.(State)
		found(segment.Found{Tail: st.Tail, Known: st.Known, Damaged: st.Damaged, Remade: st.Remade})
	})
}

func (x *suffix) tailOf(s *mq.Segment, r mq.Replica, found func(segment.Found)) {
	x.call(r, func(n *Node, reply func(State)) { n.Probe(s.ID, x.fence, reply) }, found)
}

// sealedTail is tailOf for the judgement whether something is lost.
func (x *suffix) sealedTail(s *mq.Segment, r mq.Replica, found func(segment.Found)) {
	x.call(r, func(n *Node, reply func(State)) { n.Seal(s.ID, x.fence, reply) }, found)
}

// copyTo gives a holder what it lacks of a sealed segment.
func (x *suffix) copyTo(s *mq.Segment, r mq.Replica, tail mq.Position, done func(error)) {
	x.p.read(*s, tail, func(entries []mq.Entry, err error) {
		if err != nil {
			done(err)
			return
		}
		raw := make([][]byte, len(entries))
		for k := range entries {
			raw[k] = entries[k].AppendTo(nil)
		}
		x.call(r, func(n *Node, reply func(State)) { n.copy(s.ID, x.fence, s.End, raw, reply) }, func(segment.Found) {
			x.tailOf(s, r, func(f segment.Found) {
				if !f.Whole(s.DataEnd()) {
					done(fmt.Errorf("node %s has %s of segment %d after the copy", r.Node, f.Tail, s.ID))
					return
				}
				done(nil)
			})
		})
	})
}

// judge looks for what is left of a sealed segment and records the rest as lost, if that may be (segment.Lost).
func (x *suffix) judge(head mq.Head, s *mq.Segment, force *Force, done func(error)) {
	all := s.Holders()
	x.ask(all, func(r mq.Replica, found func(segment.Found)) { x.sealedTail(s, r, found) }, func(found []segment.Found, left int) {
		if left > 0 {
			return
		}
		held, below, forced, err := segment.Lost(s, found, force)
		if err != nil || !below {
			done(err)
			return
		}
		record := func() { x.p.node.host.RecordLost(head, *s, held, forced, done) }
		switch {
		case !forced:
			record()
		case x.p.node.host.Mutation.LoseMore:
			held = s.Base
			record()
		default:
			x.p.gather(*s, s.Base, func(_ []mq.Entry, reach mq.Position) {
				if held.Before(reach) {
					held = reach
				}
				if !held.Before(s.DataEnd()) {
					done(nil) // the copies have all of it together
					return
				}
				record()
			})
		}
	})
}

// lookAtUnreadable is what a leader that serves does about sealed segments of which no copy has all: it waits for them, or for an
// operator who gives up what is lost. Then the head says so, and the leader asks for a successor.
func (p *partition) lookAtUnreadable() {
	l := p.lead
	if l == nil || !l.serving || l.looking || !slices.ContainsFunc(l.chain, func(s mq.Segment) bool { return !p.node.disk.resident(&s) }) {
		return
	}
	l.looking = true
	over := func(error) { l.looking = false }
	p.node.host.Chain(p.id, func(head mq.Head, sealed []mq.Segment, ok bool) {
		if !ok || l.ended || head.Open == nil || head.Open.ID != l.seg.Segment().ID {
			over(nil)
			return
		}
		x := p.suffixFor(&head)
		p.node.host.Force(p.id, head.Open.ID, func(force *Force, ok bool) {
			if !ok || force == nil {
				over(nil)
				return
			}
			x.lostFrom(head, sealed, len(sealed)-1, force, over)
		})
	})
}

func (p *partition) suffixFor(head *mq.Head) *suffix {
	return &suffix{p, &Fence{p.id, mq.Named{Number: head.Open.Number, Revision: head.Revision}}}
}

// lost judges what a leader can't find: the last segment, and if an operator forces the partition, all others too.
func (x *suffix) lost(head mq.Head, chain []mq.Segment, done func(error)) {
	x.p.node.host.Force(x.p.id, head.Open.ID, func(force *Force, ok bool) {
		if !ok {
			done(fmt.Errorf("the wish to force can't be read"))
			return
		}
		x.lostFrom(head, chain, len(chain)-1, force, done)
	})
}

func (x *suffix) lostFrom(head mq.Head, chain []mq.Segment, i int, force *Force, done func(error)) {
	over := head.Open == nil || head.Open.Number != x.fence.Number // somebody else's to judge
	if i < 0 || i < len(chain)-1 && force == nil || over || len(chain) <= i {
		done(nil)
		return
	}
	x.judge(head, &chain[i], force, func(err error) {
		if err != nil {
			done(err)
			return
		}
		x.p.node.host.Chain(x.p.id, func(h mq.Head, sealed []mq.Segment, ok bool) {
			if !ok {
				done(fmt.Errorf("the chain can't be read"))
				return
			}
			x.lostFrom(h, sealed, i-1, force, done)
		})
	})
}
