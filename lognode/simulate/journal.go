package simulate

import (
	"fmt"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
)

// read gets the entries of a sealed segment from a position to where they end, from this disk and what is not here from other
// replicas. With an error it still gives what came.
func (p *partition) read(s mq.Segment, from mq.Position, done func([]mq.Entry, error)) {
	p.gather(s, from, func(got []mq.Entry, reach mq.Position) {
		if reach.Before(s.DataEnd()) {
			done(got, lostHere(&s, reach))
			return
		}
		done(got, nil)
	})
}

// collect reads this disk's entries of a segment from a position, and below an end.
func (p *partition) collect(id mq.SegmentID, from, end mq.Position) (out []mq.Entry, err error) {
	err = p.node.disk.scan(id, from, func(e *mq.Entry, _ []byte) bool {
		if !e.At.Before(end) {
			return false
		}
		out = append(out, *e)
		return true
	})
	return out, err
}

// readAll gets the entries of several segments, in order.
func (p *partition) readAll(list []mq.Segment, done func([]mq.Entry, error)) {
	var all []mq.Entry
	var next func(i int)
	next = func(i int) {
		if i == len(list) {
			done(all, nil)
			return
		}
		p.read(list[i], list[i].Base, func(got []mq.Entry, err error) {
			if err != nil {
				done(nil, err)
				return
			}
			all = append(all, got...)
			next(i + 1)
		})
	}
	next(0)
}

// load replays the journal into a machine: the newest complete checkpoint and what follows it.
func (p *partition) load(o *loaded, done func(error)) {
	p.readAll(o.chain, func(all []mq.Entry, err error) {
		if err != nil {
			done(err)
			return
		}
		parts, asOf, err := newestCheckpoint(all)
		o.book = schedule.New()
		if o.machine = delivery.New(p.id); err == nil && parts != nil {
			o.machine, asOf, err = delivery.LoadCheckpoint(p.id, parts)
		}
		if err == nil {
			segment.GapBefore(o.chain, o.head.Holes, o.machine.Hole)
			segment.Gaps(o.chain, o.base, o.machine.Hole)
		}
		if err == nil {
			err = p.learnLanes(o.machine, all)
		}
		if err == nil && parts != nil && !p.node.host.Mutation.ForgetSchedules {
			err = o.loadSchedules(all, asOf)
		}
		for i := 0; err == nil && i < len(all); i++ {
			e := &all[i]
			if o.prev, o.stamp = e.At, e.Stamp; e.At.Before(asOf) {
				continue
			}
			if err = o.machine.Apply(e); err == nil && (e.Count == 0 || !p.node.host.Mutation.ReleaseTwice) {
				err = o.book.Apply(e)
			}
		}
		o.book.Restored()
		if segment.GivenUp(o.head.Holes, asOf) && !p.node.host.Mutation.ReuseNumbers {
			o.book.Skip()
		}
		if err == nil {
			err = o.book.Check()
		}
		if err == nil {
			err = o.machine.Check()
		}
		if err == nil {
			err = segment.CheckReplay(o.base, o.machine.Next(), o.machine.Committed())
		}
		if err != nil { // what is committed can always be replayed
			p.node.host.Fault(fmt.Errorf("replay of partition %s: %w", p.id, err))
		}
		done(err)
	})
}

// learnLanes tells a machine that was loaded from a checkpoint the lanes of the messages below it.
func (p *partition) learnLanes(m *delivery.Machine, all []mq.Entry) error {
	if from, to := m.UnknownLanes(); from == to {
		return nil
	}
	for i := 0; i < len(all) && !p.node.host.Mutation.ForgetLanes; i++ {
		if err := delivery.EntryLanes(&all[i], m.LearnLanes); err != nil {
			return err
		}
	}
	m.LanesLearnt()
	return nil
}

// newestCheckpoint looks back for the newest checkpoint of which all parts are there; nil if there is none.
func newestCheckpoint(all []mq.Entry) (parts [][]byte, asOf mq.Position, err error) {
	found := map[uint64][][]byte{}
	for i := len(all) - 1; i >= 0; i-- {
		for rec, err := range mq.Records(all[i].Records) {
			if err != nil {
				return nil, asOf, err
			}
			if rec.Kind != mq.KindCheckpoint {
				continue
			}
			h, err := delivery.ParseCheckpointHeader(rec.Body)
			if err != nil {
				return nil, asOf, err
			}
			if found[h.ID] == nil {
				found[h.ID] = make([][]byte, h.Parts)
			}
			found[h.ID][h.Part] = rec.Body
			whole := true
			for _, b := range found[h.ID] {
				whole = whole && b != nil
			}
			if whole {
				return found[h.ID], h.AsOf, nil
			}
		}
	}
	return nil, asOf, nil
}
