package simulate

import (
	"errors"
	"math"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
)

// gathering is the way of replica.Partition.through along a segment: from this disk what is intact here, and what is not from whichever
// other replica has it.
type gathering struct {
	p      *partition
	course *segment.Course
	out    []mq.Entry
	done   func(got []mq.Entry, reach mq.Position)
}

// gather reads a segment's entries from a position to where they end, or as far as copies have them together.
func (p *partition) gather(s mq.Segment, from mq.Position, done func(got []mq.Entry, reach mq.Position)) {
	g := &gathering{p: p, done: done}
	g.course = segment.NewCourse(&s, from, func(e *mq.Entry) error {
		g.out = append(g.out, *e)
		return nil
	})
	g.here()
}

func (g *gathering) here() {
	if !g.course.Over() {
		got, _ := g.p.collect(g.course.Segment().ID, g.course.At(), g.course.Segment().DataEnd()) // up to what is broken
		g.take(got)
	}
	if g.course.Over() {
		g.done(g.out, g.course.At())
		return
	}
	g.there(0)
}

// there asks the others one after the other, and begins anew with this disk when one has something.
func (g *gathering) there(i int) {
	s, from := g.course.Segment(), g.course.At()
	all := s.Holders()
	for i < len(all) && all[i].Store == g.p.node.self.Store {
		i++
	}
	if i == len(all) {
		g.done(g.out, from)
		return
	}
	g.p.node.host.Call(all[i], func(n *Node, reply func(any)) {
		got, _ := n.partition(g.p.id).collect(s.ID, from, s.DataEnd())
		if n.self.Store != all[i].Store {
			got = nil
		}
		reply(got)
	}, func(res any, ok bool) {
		if got, _ := res.([]mq.Entry); ok && g.take(got) {
			g.here()
			return
		}
		g.there(i + 1)
	})
}

// take goes on with entries that a copy has, and says whether that was any.
func (g *gathering) take(got []mq.Entry) bool {
	if len(got) == 0 || got[0].At != g.course.At() {
		return false
	}
	for i := range got {
		if err := g.course.Next(&got[i], false); err != nil {
			g.p.node.host.Fault(err)
			return false
		}
	}
	return true
}

// until is a segment for those who read it up to a position.
func until(s *mq.Segment, end mq.Position) mq.Segment {
	out := *s
	out.Sealed, out.End, out.Held = true, end, nil
	return out
}

// asStored is a whole copy of entries.
func asStored(s mq.Segment, all []mq.Entry) *Stored {
	out := &Stored{Segment: s, Tail: s.Base, Last: s.Base}
	for i := range all {
		e := &all[i]
		out.Entries = append(out.Entries, Written{e.At, e.Next(), e.AppendTo(nil)})
		out.Last, out.Tail = e.At, e.Next()
	}
	out.mark = out.Tail
	return out
}

// noteTogether is what replica.Partition.together tells those who look for what is left.
func (p *partition) noteTogether(id mq.SegmentID, reach mq.Position) {
	p.post(func() {
		if h := p.copies[id]; h != nil {
			h.together = reach
		}
	})
}

var errReplaced = errors.New("simulate: the damaged copy is there no more, or its end was decided")

// restore is replica.Partition.Restore: a damaged copy of the open segment becomes what it was.
func (p *partition) restore(s mq.Segment, done func()) {
	d := p.node.disk
	p.gather(until(&s, mq.Position{Offset: math.MaxUint64, Seq: math.MaxUint32}), s.Base, func(all []mq.Entry, reach mq.Position) {
		p.noteTogether(s.ID, reach)
		have := d.segments[s.ID]
		if have == nil || have.claim == nil {
			done()
			return
		}
		claim := *have.claim
		if reach.Before(claim) && p.node.host.Mutation.RestoreShort {
			claim = reach
		}
		if reach.Before(claim) {
			done()
			return
		}
		for len(all) > 0 && claim.Before(all[len(all)-1].Next()) {
			all = all[:len(all)-1]
		}
		write := func() error {
			have := d.segments[s.ID]
			if have == nil || !have.Damaged || have.End != nil {
				return errReplaced
			}
			fresh := asStored(have.Segment, all)
			fresh.Flag = have.Flag
			d.segments[s.ID] = fresh
			return nil
		}
		if !d.add(write, func(err error) {
			if err == nil {
				p.post(func() { p.holdRestored(s.ID) })
			}
			done()
		}) {
			done()
		}
	})
}

// holdRestored is replica.Partition.holdRestored.
func (p *partition) holdRestored(id mq.SegmentID) {
	h, s := p.copies[id], p.node.disk.segments[id]
	if h == nil || !h.damaged || s == nil || s.Damaged || p.fault {
		return
	}
	now := segment.NewReplica(s.Segment, s.Tail, s.Last, s.Flag, s.End)
	if end := h.copy.End(); end != nil {
		if _, err := now.SetEnd(*end); err != nil {
			p.stop(err)
			return
		}
	}
	if h.copy.Sealing() { // somebody counts on it that nothing is taken any more
		now.Seal()
	}
	h.damaged, h.copy, h.together = false, now, mq.Position{}
	p.node.disk.Restored++
	p.settle(h)
}

// replace is replica.Partition.replace: a damaged copy of a sealed segment is made whole out of what the copies have together.
func (p *partition) replace(s mq.Segment, done func()) {
	d, end := p.node.disk, s.End
	p.gather(s, s.Base, func(all []mq.Entry, reach mq.Position) {
		p.noteTogether(s.ID, reach)
		if reach.Before(s.DataEnd()) {
			done()
			return
		}
		write := func() error {
			if have := d.segments[s.ID]; have == nil || !have.Damaged || have.End != nil && *have.End != end {
				return errReplaced
			}
			fresh := asStored(asNew(&s, 0), all)
			fresh.Flag, fresh.End = true, &end
			d.segments[s.ID], d.gaveUp[s.ID] = fresh, true
			return nil
		}
		if !d.add(write, func(err error) {
			if err == nil {
				p.holdAnew(s.ID)
			}
			done()
		}) {
			done()
		}
	})
}

// asNew is that of replica/repair.go.
func asNew(s *mq.Segment, compared int64) mq.Segment {
	fresh := *s
	fresh.Sealed, fresh.End, fresh.Held, fresh.Adding, fresh.Compared = false, mq.Position{}, nil, nil, compared
	return fresh
}

// holdAnew is that of replica/repair.go.
func (p *partition) holdAnew(id mq.SegmentID) {
	p.post(func() {
		if s := p.node.disk.segments[id]; s != nil {
			p.copies[id] = &held{ended: true, damaged: p.fault, copy: segment.NewReplica(s.Segment, s.Tail, s.Last, true, s.End)}
		}
	})
}
