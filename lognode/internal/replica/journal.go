package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

const (
	// checkpointPart is the size of one checkpoint record.
	checkpointPart = 256 << 10
	// fetchBytes is how much is read from another node at a time.
	fetchBytes = 4 << 20
	// probeWait is how long a replica has to say what it holds; one that needs longer is not waited for.
	probeWait = 500 * time.Millisecond
	// pieceWait is how long a piece of a segment may take to come or go.
	pieceWait = 3 * time.Second
)

// errStop ends a walk early.
var errStop = errors.New("stop")

// load replays the journal into a machine: the newest complete checkpoint and what follows it.
func (p *Partition) load(ctx context.Context, o *loaded) error {
	parts, asOf, err := p.findCheckpoint(ctx, o.chain)
	if err != nil {
		return err
	}
	if parts == nil {
		o.machine = delivery.New(p.id)
	} else if o.machine, asOf, err = delivery.LoadCheckpoint(p.id, parts); err != nil {
		return err
	} else if err := p.learnLanes(ctx, o.chain, o.machine); err != nil {
		return err
	}
	for i := range o.chain {
		s := &o.chain[i]
		if !asOf.Before(s.End) && i < len(o.chain)-1 {
			continue
		}
		err := p.walk(ctx, s, maxPosition(asOf, s.Base), func(e *mq.Entry) error {
			o.prev, o.stamp = e.At, e.Stamp
			return o.machine.Apply(e)
		})
		if err != nil {
			return fmt.Errorf("replaying segment %d: %w", s.ID, err)
		}
	}
	if n := len(o.chain); n > 0 && o.stamp == 0 { // nothing after the checkpoint: the last entry still gives prev and stamp
		return p.walkBack(ctx, o.chain, func(e *mq.Entry) error {
			o.prev, o.stamp = e.At, e.Stamp
			return errStop
		})
	}
	return nil
}

// learnLanes tells a machine that was loaded from a checkpoint the lanes of the messages below it, if any but the normal
// one are in use there.
func (p *Partition) learnLanes(ctx context.Context, chain []mq.Segment, m *delivery.Machine) error {
	from, to := m.UnknownLanes()
	if from == to {
		return nil
	}
	for i := range chain {
		s := &chain[i]
		if s.End.Offset <= from || s.Base.Offset >= to {
			continue
		}
		err := p.walk(ctx, s, s.Base, func(e *mq.Entry) error { return delivery.EntryLanes(e, m.LearnLanes) })
		if err != nil {
			return fmt.Errorf("reading the lanes of segment %d: %w", s.ID, err)
		}
	}
	m.LanesLearnt()
	return nil
}

func maxPosition(a, b mq.Position) mq.Position {
	if a.Before(b) {
		return b
	}
	return a
}

// findCheckpoint scans back for the newest checkpoint of which all parts are there; nil if there is none.
func (p *Partition) findCheckpoint(ctx context.Context, chain []mq.Segment) (parts [][]byte, asOf mq.Position, err error) {
	found := map[uint64][][]byte{}
	err = p.walkBack(ctx, chain, func(e *mq.Entry) error {
		for rest := e.Records; len(rest) > 0; {
			var rec mq.Record
			var err error
			if rec, rest, err = mq.NextRecord(rest); err != nil {
				return err
			}
			if rec.Kind != mq.KindCheckpoint {
				continue
			}
			h, err := delivery.ParseCheckpointHeader(rec.Body)
			if err != nil {
				return err
			}
			if found[h.ID] == nil {
				found[h.ID] = make([][]byte, h.Parts)
			}
			found[h.ID][h.Part] = append([]byte(nil), rec.Body...)
			if complete(found[h.ID]) {
				parts, asOf = found[h.ID], h.AsOf
				return errStop
			}
		}
		return nil
	})
	return parts, asOf, err
}

func complete(parts [][]byte) bool {
	for _, b := range parts {
		if b == nil {
			return false
		}
	}
	return true
}

// walk calls f with every entry of a sealed segment from a position to its end, from this store or, if this
// has no whole copy, from another replica.
func (p *Partition) walk(ctx context.Context, s *mq.Segment, from mq.Position, f func(*mq.Entry) error) error {
	if !from.Before(s.End) {
		return nil
	}
	if Resident(p.env.Store, s) {
		var stop error
		err := p.env.Store.Scan(s.ID, from, func(at mq.Position, data []byte) bool {
			if !at.Before(s.End) {
				return false
			}
			e, err := mq.ParseEntry(data)
			if err == nil {
				err = f(&e)
			}
			stop = err
			return err == nil && ctx.Err() == nil
		})
		return walked(errors.Join(err, stop, ctx.Err()))
	}
	return walked(p.walkRemote(ctx, s, from, f))
}

func walked(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func (p *Partition) walkRemote(ctx context.Context, s *mq.Segment, from mq.Position, f func(*mq.Entry) error) error {
	for from.Before(s.End) {
		raw, err := p.fetch(ctx, s, from)
		if err != nil {
			return err
		}
		for _, b := range raw {
			e, err := mq.ParseEntry(b)
			if err != nil {
				return err
			}
			if e.At != from {
				return fmt.Errorf("asked for %s of segment %d, got %s", from, s.ID, e.At)
			}
			if !e.At.Before(s.End) {
				return nil
			}
			if err := f(&e); err != nil {
				return err
			}
			from = e.Next()
		}
	}
	return nil
}

// fetch reads some entries from any other replica that holds them.
func (p *Partition) fetch(ctx context.Context, s *mq.Segment, from mq.Position) ([][]byte, error) {
	err := fmt.Errorf("no other replica of segment %d", s.ID)
	for _, r := range s.Replicas {
		if r.Store == p.env.Store.Identity().Store {
			continue
		}
		c, cerr := p.env.Peers.Client(r.Store)
		if cerr != nil {
			err = cerr
			continue
		}
		call, cancel := context.WithTimeout(ctx, pieceWait)
		res, cerr := c.ReadSegment(call, &mqpb.ReadSegmentRequest{Segment: uint64(s.ID), From: mqpb.FromPosition(from), MaxBytes: fetchBytes})
		cancel()
		if cerr != nil {
			err = cerr
			continue
		}
		if res.Known && len(res.Entries) > 0 {
			return res.Entries, nil
		}
		err = fmt.Errorf("node %s lacks %s of segment %d", r.Node, from, s.ID)
	}
	return nil, err
}

// walkBack calls f with every entry of the chain, newest first, until it returns errStop.
func (p *Partition) walkBack(ctx context.Context, chain []mq.Segment, f func(*mq.Entry) error) error {
	for i := len(chain) - 1; i >= 0; i-- {
		s := &chain[i]
		var stop error
		if Resident(p.env.Store, s) {
			err := p.env.Store.ScanBack(s.ID, s.End, func(_ mq.Position, data []byte) bool {
				e, err := mq.ParseEntry(data)
				if err == nil {
					err = f(&e)
				}
				stop = err
				return err == nil && ctx.Err() == nil
			})
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
		} else if stop = p.remoteBack(ctx, s, f); stop == nil {
			continue
		}
		if stop != nil {
			return walked(stop)
		}
	}
	return nil
}

// remoteBack reads a segment forward from another node, entry headers only kept, and calls f backwards.
func (p *Partition) remoteBack(ctx context.Context, s *mq.Segment, f func(*mq.Entry) error) error {
	var kept [][]byte // only what f may want backwards: checkpoints, and the last entry
	var last []byte
	err := p.walkRemote(ctx, s, s.Base, func(e *mq.Entry) error {
		last = e.AppendTo(last[:0])
		if rec, _, err := mq.NextRecord(e.Records); err == nil && rec.Kind == mq.KindCheckpoint {
			kept = append(kept, append([]byte(nil), last...))
			last = nil
		}
		return nil
	})
	if err != nil {
		return err
	}
	if last != nil {
		kept = append(kept, last)
	}
	for i := len(kept) - 1; i >= 0; i-- {
		e, err := mq.ParseEntry(kept[i])
		if err != nil {
			return err
		}
		if err := f(&e); err != nil {
			return err
		}
	}
	return nil
}

// repairSuffix brings the last sealed segment to its quorum before anything is built on it
// (replication step 6): the range up to the decided end is committed once a quorum holds it. A replica that
// does not answer is not waited for; those beyond the quorum get their copy beside.
func (p *Partition) repairSuffix(ctx context.Context, s *mq.Segment) error {
	if s.Base == s.End {
		return nil
	}
	self := p.env.Store.Identity().Store
	tails, known := p.tails(ctx, s, self)
	holders := 0
	var behind []int
	for i := range s.Replicas {
		switch {
		case known[i] && !tails[i].Before(s.End):
			holders++
		case known[i]:
			behind = append(behind, i)
		}
	}
	var last error
	for len(behind) > 0 && holders < s.Quorum {
		r := s.Replicas[behind[0]]
		if last = p.copyTo(ctx, s, r, tails[behind[0]], self); last == nil {
			holders++
		} else {
			p.log.Warn("the suffix could not be copied", "segment", s.ID, "node", r.Node, "err", last)
		}
		behind = behind[1:]
	}
	if holders < s.Quorum {
		if last == nil {
			last = errors.New("the others do not answer")
		}
		return fmt.Errorf("segment %d up to %s is on %d of %d replicas needed: %w", s.ID, s.End, holders, s.Quorum, last)
	}
	for _, i := range behind {
		p.beside(func(ctx context.Context) {
			if err := p.copyTo(ctx, s, s.Replicas[i], tails[i], self); err != nil {
				p.log.Warn("a replica of the last segment is behind", "segment", s.ID, "node", s.Replicas[i].Node, "err", err)
			}
		})
	}
	return nil
}

// tails asks every replica of a segment at once; one that does not answer soon is not known.
func (p *Partition) tails(ctx context.Context, s *mq.Segment, self mq.StoreID) (tails []mq.Position, known []bool) {
	tails, known = make([]mq.Position, len(s.Replicas)), make([]bool, len(s.Replicas))
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	var wg sync.WaitGroup
	for i, r := range s.Replicas {
		wg.Go(func() { tails[i], known[i] = p.tailOf(ctx, s, r, self) })
	}
	wg.Wait()
	return tails, known
}

func (p *Partition) tailOf(ctx context.Context, s *mq.Segment, r mq.Replica, self mq.StoreID) (mq.Position, bool) {
	if r.Store == self {
		info, ok := p.env.Store.Segment(s.ID)
		return info.Tail, ok && !info.Damaged
	}
	c, err := p.env.Peers.Client(r.Store)
	if err != nil {
		return mq.Position{}, false
	}
	res, err := c.Probe(ctx, &mqpb.ProbeRequest{Segments: []uint64{uint64(s.ID)}})
	if err != nil || len(res.Segments) != 1 || !res.Segments[0].Known || res.Node.GetStore() != string(r.Store) {
		return mq.Position{}, false
	}
	return res.Segments[0].Tail.MQ(), true
}

// copyTo gives a replica what it lacks of a sealed segment.
func (p *Partition) copyTo(ctx context.Context, s *mq.Segment, r mq.Replica, tail mq.Position, self mq.StoreID) error {
	send := func(raw [][]byte) error {
		if r.Store == self {
			return p.copyHere(ctx, s, raw)
		}
		c, err := p.env.Peers.Client(r.Store)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, pieceWait)
		defer cancel()
		res, err := c.CopyEntries(ctx, &mqpb.CopyEntriesRequest{Segment: uint64(s.ID), End: mqpb.FromPosition(s.End), Entries: raw})
		if err == nil && !res.Known {
			err = fmt.Errorf("node %s does not take the copy", r.Node)
		}
		return err
	}
	var raw [][]byte
	size := 0
	err := p.walk(ctx, s, tail, func(e *mq.Entry) error {
		b := e.AppendTo(nil)
		raw = append(raw, b)
		if size += len(b); size < fetchBytes {
			return nil
		}
		err := send(raw)
		raw, size = nil, 0
		return err
	})
	if err == nil && len(raw) > 0 {
		err = send(raw)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if tail, known := p.tailOf(ctx, s, r, self); !known || tail.Before(s.End) {
		return fmt.Errorf("node %s has %s of segment %d after the copy, not %s", r.Node, tail, s.ID, s.End)
	}
	return nil
}

// copyHere is copyTo for this store.
func (p *Partition) copyHere(ctx context.Context, s *mq.Segment, raw [][]byte) error {
	entries := make([]mq.Entry, len(raw))
	for i, b := range raw {
		var err error
		if entries[i], err = mq.ParseEntry(b); err != nil {
			return err
		}
	}
	done := make(chan bool, 1)
	p.Copy(s.ID, s.End, entries, raw, func(known bool, _ mq.Position) { done <- known })
	select {
	case known := <-done:
		if !known {
			return fmt.Errorf("this store does not take the copy")
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Resident says whether a store holds a segment whole up to its end (of the open one: to the commit position).
func Resident(st *store.Store, s *mq.Segment) bool {
	info, ok := st.Segment(s.ID)
	return ok && !info.Damaged && !info.Tail.Before(s.End)
}
