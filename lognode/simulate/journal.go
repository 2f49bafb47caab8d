package simulate

import (
	"fmt"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
)

// read gets the entries of a sealed segment from a position to its end, from this disk or, if it has no whole copy,
// from another replica.
func (p *partition) read(s mq.Segment, from mq.Position, done func([]mq.Entry, error)) {
	var out []mq.Entry
	if !from.Before(s.End) {
		done(nil, nil)
		return
	}
	if p.node.disk.resident(&s) {
		if out, err := p.collect(s.ID, from, s.End); err == nil {
			done(out, nil)
			return
		}
	}
	var ask func(i int)
	ask = func(i int) {
		for i < len(s.Replicas) && s.Replicas[i].Store == p.node.self.Store {
			i++
		}
		if i == len(s.Replicas) {
			done(nil, fmt.Errorf("no replica gives segment %d from %s", s.ID, from))
			return
		}
		p.node.host.Call(s.Replicas[i], func(n *Node, reply func(any)) {
			got, err := n.partition(p.id).collect(s.ID, from, s.End)
			if n.self.Store != s.Replicas[i].Store || err != nil {
				got = nil
			}
			reply(got)
		}, func(res any, ok bool) {
			got, _ := res.([]mq.Entry)
			if !ok || len(got) == 0 || got[0].At != from {
				ask(i + 1)
				return
			}
			out = append(out, got...)
			if from = out[len(out)-1].Next(); from.Before(s.End) {
				ask(i + 1)
				return
			}
			done(out, nil)
		})
	}
	ask(0)
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
		if o.machine = delivery.New(p.id); err == nil && parts != nil {
			o.machine, asOf, err = delivery.LoadCheckpoint(p.id, parts)
		}
		if err == nil {
			err = learnLanes(o.machine, all)
		}
		for i := 0; err == nil && i < len(all); i++ {
			e := &all[i]
			if o.prev, o.stamp = e.At, e.Stamp; e.At.Before(asOf) {
				continue
			}
			err = o.machine.Apply(e)
		}
		if err == nil {
			err = o.machine.Check()
		}
		if err != nil { // what is committed can always be replayed
			p.node.host.Fault(fmt.Errorf("replay of partition %s: %w", p.id, err))
		}
		done(err)
	})
}

// learnLanes tells a machine that was loaded from a checkpoint the lanes of the messages below it.
func learnLanes(m *delivery.Machine, all []mq.Entry) error {
	if from, to := m.UnknownLanes(); from == to {
		return nil
	}
	for i := range all {
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
		for rest := all[i].Records; len(rest) > 0; {
			var rec mq.Record
			if rec, rest, err = mq.NextRecord(rest); err != nil {
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

// repairSuffix brings the last sealed segment to its quorum before anything is built on it. Copies that are gone for
// good (the store answers unknown, or another store answers at its node's address) are not waited for: what the
// survivors hold is all that there is, and it is whole up to the end (I2).
func (p *partition) repairSuffix(s *mq.Segment, done func(error)) {
	if s.Base == s.End {
		done(nil)
		return
	}
	seg := *s
	tails := map[int]mq.Position{}
	gone, left := 0, len(seg.Replicas)
	for i, r := range seg.Replicas {
		p.node.host.Call(r, func(n *Node, reply func(any)) {
			if n.self.Store != r.Store {
				reply(State{})
				return
			}
			n.Probe(seg.ID, func(s State) { reply(s) })
		}, func(res any, ok bool) {
			switch st, _ := res.(State); {
			case ok && st.Known:
				tails[i] = st.Tail
			case ok:
				gone++
			}
			if left--; left == 0 {
				p.spread(seg, tails, max(1, min(seg.Quorum, len(seg.Replicas)-gone)), done)
			}
		})
	}
}

// spread copies the suffix to replicas that are behind until need of them hold it.
func (p *partition) spread(s mq.Segment, tails map[int]mq.Position, need int, done func(error)) {
	holders := 0
	var behind []int
	for i := range s.Replicas {
		tail, known := tails[i]
		switch {
		case known && !tail.Before(s.End):
			holders++
		case known:
			behind = append(behind, i)
		}
	}
	if holders >= need {
		done(nil)
		return
	}
	if len(behind) == 0 {
		done(fmt.Errorf("segment %d up to %s is on %d of %d replicas needed", s.ID, s.End, holders, need))
		return
	}
	i := behind[0]
	p.read(s, tails[i], func(entries []mq.Entry, err error) {
		if err != nil {
			done(err)
			return
		}
		raw := make([][]byte, len(entries))
		for k := range entries {
			raw[k] = entries[k].AppendTo(nil)
		}
		p.node.host.Call(s.Replicas[i], func(n *Node, reply func(any)) {
			if q := n.holder(s.ID); n.self.Store == s.Replicas[i].Store && q != nil {
				q.copyEntries(s.ID, s.End, raw, func(known bool, tail mq.Position) { reply(State{Known: known, Tail: tail}) })
				return
			}
			reply(State{})
		}, func(res any, ok bool) {
			st, _ := res.(State)
			if delete(tails, i); ok && st.Known && !st.Tail.Before(s.End) {
				tails[i] = st.Tail
			}
			p.spread(s, tails, need, done)
		})
	})
}
