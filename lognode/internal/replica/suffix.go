package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// Follows says whether this store may answer somebody who acts for a segment of a partition: it has not seen a later
// one named (rule R7). Nil is somebody who acts for none, like a controller.
func (e *Env) Follows(f *mqpb.Named) bool {
	if f == nil {
		return true
	}
	return e.Store.Named(f.Partition.MQ()).Admits(f.Number)
}

// suffix is the work of a new leader on the sealed segments before its own (replication.md step 6).
type suffix struct {
	p     *Partition
	self  mq.StoreID
	fence *mqpb.Named
}

func (p *Partition) suffixFor(head *mq.Head) *suffix {
	return &suffix{p, p.env.Store.Identity().Store,
		&mqpb.Named{Partition: mqpb.FromPartition(p.id), Number: head.Open.Number, Revision: head.Revision}}
}

// repair brings the last sealed segment to its quorum before anything is built on it: the range up to the decided end is
// committed once a quorum holds it. A holder that does not answer is not waited for; those beyond the quorum get their
// copy beside.
func (x *suffix) repair(ctx context.Context, s *mq.Segment) error {
	if s.Base == s.DataEnd() {
		return nil
	}
	all := s.Holders()
	// Not of ctx: the answers that come late still count, beside.
	q := x.p.inquire(x.p.ctx, all, func(ctx context.Context, r mq.Replica) segment.Found { return x.tailOf(ctx, s, r) })
	found := q.until(func(found []segment.Found) bool {
		lacking, _ := segment.Spread(s, found)
		return lacking == 0
	})
	err := segment.CheckCopies(s, all, found)
	if q.left > 0 {
		x.p.work.Go(func() {
			found := q.all()
			x.p.post(func() { x.late(s, all, found) })
		})
		return err
	}
	if err != nil {
		return err
	}
	lacking, behind := segment.Spread(s, found)
	var last error
	for len(behind) > 0 && lacking > 0 {
		r := all[behind[0]]
		if last = x.copyTo(ctx, s, r, found[behind[0]].Tail); last == nil {
			lacking--
		} else {
			x.p.log.Warn("the suffix could not be copied", "segment", s.ID, "node", r.Node, "err", last)
		}
		if behind = behind[1:]; errors.Is(last, errNowhere) {
			break // who has it does not answer: the others would wait for that too
		}
	}
	if lacking > 0 {
		if last == nil {
			last = errors.New("the others do not answer")
		}
		return fmt.Errorf("segment %d up to %s is on %d of %d replicas needed: %w", s.ID, s.DataEnd(), s.Quorum-lacking, s.Quorum, last)
	}
	x.catchUp(s, all, found, behind)
	return nil
}

// late takes up what is known when all holders have answered, or have had the time to, after repair did without some of them.
func (x *suffix) late(s *mq.Segment, all []mq.Replica, found []segment.Found) {
	if err := segment.CheckCopies(s, all, found); err != nil {
		x.p.stop(err)
		return
	}
	_, behind := segment.Spread(s, found)
	x.catchUp(s, all, found, behind)
}

// catchUp gives holders what they lack, beside. Those that it does not reach ask for it themselves (Partition.Repair).
func (x *suffix) catchUp(s *mq.Segment, all []mq.Replica, found []segment.Found, behind []int) {
	for _, i := range behind {
		x.p.beside(func(ctx context.Context) {
			if err := x.copyTo(ctx, s, all[i], found[i].Tail); err != nil {
				x.p.log.Warn("a replica of the last segment is behind", "segment", s.ID, "node", all[i].Node, "err", err)
			}
		})
	}
}

func (x *suffix) tailOf(ctx context.Context, s *mq.Segment, r mq.Replica) segment.Found {
	if r.Store == x.self {
		return x.p.ownCopy(s.ID, x.fence)
	}
	c, err := x.p.env.Peers.Client(r.Store)
	if err != nil {
		return segment.Found{}
	}
	res, err := c.Probe(ctx, &mqpb.ProbeRequest{Segments: []uint64{uint64(s.ID)}, Fence: x.fence})
	if err != nil {
		return segment.Found{}
	}
	return answered(r, res.Node, res.Segments)
}

func answered(r mq.Replica, node *mqpb.Incarnation, states []*mqpb.SegmentState) segment.Found {
	if len(states) != 1 || node.GetStore() != string(r.Store) || !states[0].Known && !states[0].Damaged {
		return segment.Found{}
	}
	return segment.Found{Tail: states[0].Tail.MQ(), Known: states[0].Known, Damaged: !states[0].Known, Remade: states[0].Remade,
		Entries: states[0].Entries, Sum: states[0].Sum}
}

// ownCopy is what this store says of its copy to somebody who acts for a later segment.
func (p *Partition) ownCopy(id mq.SegmentID, fence *mqpb.Named) segment.Found {
	info, ok := p.env.Store.Segment(id)
	if !ok || !p.env.Follows(fence) {
		return segment.Found{}
	}
	if !info.Damaged {
		return segment.Found{Tail: info.Tail, Known: true, Entries: info.Count, Sum: info.Sum}
	}
	intact, err := p.env.Store.Intact(id)
	return segment.Found{Tail: intact, Damaged: err == nil}
}

// sealedTail is tailOf for the judgement whether something is lost: before it answers, the replica makes durable that it
// takes nothing more of the segment from whoever led it, and follows no leader before this one.
func (x *suffix) sealedTail(ctx context.Context, s *mq.Segment, r mq.Replica) segment.Found {
	req := &mqpb.SealRequest{Segments: []uint64{uint64(s.ID)}, Reason: "its end is looked for", Fence: x.fence}
	var res *mqpb.SealResponse
	var err error
	if r.Store == x.self {
		res, err = x.p.env.SealHere(ctx, req)
	} else {
		var c mqpb.LogNodeClient
		if c, err = x.p.env.Peers.Client(r.Store); err == nil {
			res, err = c.Seal(ctx, req)
		}
	}
	if err != nil {
		return segment.Found{}
	}
	return answered(r, res.Node, res.Segments)
}

// judge looks for what is left of a sealed segment and records the rest as lost, if that may be (segment.Lost). Nil if it
// was recorded, or if nothing is lost.
func (x *suffix) judge(ctx context.Context, head mq.Head, s *mq.Segment, by meta.Force) error {
	all := s.Holders()
	found := x.p.inquire(ctx, all, func(ctx context.Context, r mq.Replica) segment.Found { return x.sealedTail(ctx, s, r) }).all()
	var force *segment.Force
	if by.Stands(head.Open.ID) {
		force = &segment.Force{Store: by.Store, Empty: by.Empty}
	}
	held, below, forced, err := segment.Lost(s, found, force)
	if err != nil || !below {
		return err
	}
	if !forced {
		by = meta.Force{}
	} else if reach, _ := x.p.together(ctx, s, func(ctx context.Context, _ int) error { return ctx.Err() }); held.Before(reach) {
		if held = reach; !held.Before(s.DataEnd()) {
			return nil // the copies have all of it together
		}
	}
	_, err = x.p.env.Chain.RecordLost(ctx, head, *s, held, by)
	if err == nil {
		x.p.env.Metrics.Lost.Inc()
		x.p.log.Error("a range of the partition is lost", "segment", s.ID, "from", held, "to", s.DataEnd(), "forced_by", by.By)
	}
	return err
}

// lost judges what a leader can't find: the last segment, and if an operator forces the partition, all others too.
func (x *suffix) lost(ctx context.Context, head mq.Head, chain []mq.Segment) error {
	by, err := x.p.env.Chain.GetForce(ctx, x.p.id)
	if err != nil {
		return err
	}
	known := head.Holes
	for i := len(chain) - 1; i >= 0; i-- {
		s := &chain[i]
		if i < len(chain)-1 && !by.Stands(head.Open.ID) {
			break
		}
		err := x.judge(ctx, head, s, by)
		if mqerr.Is(err, mqerr.PreconditionFailed) {
			return nil // the chain was read too early: it is read again
		}
		if err != nil {
			return err
		}
		if head, chain, err = x.p.env.Chain.Chain(ctx, x.p.id); err != nil || len(chain) <= i || head.Open == nil {
			return err
		}
	}
	if by.Stands(head.Open.ID) && segment.Lacks(known, &head) { // it is carried out, and meets no other failure
		return x.p.env.Chain.ForgetForce(ctx, x.p.id)
	}
	return nil
}

// copyTo gives a holder what it lacks of a sealed segment.
func (x *suffix) copyTo(ctx context.Context, s *mq.Segment, r mq.Replica, tail mq.Position) error {
	var raw [][]byte
	size := 0
	err := x.p.walk(ctx, s, tail, func(e *mq.Entry) (err error) {
		b := e.AppendTo(nil)
		if size > 0 && size+len(b) > fetchBytes {
			err = x.send(ctx, s, r, raw)
			raw, size = nil, 0
		}
		raw, size = append(raw, b), size+len(b)
		return err
	})
	if err == nil && len(raw) > 0 {
		err = x.send(ctx, s, r, raw)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	if found := x.tailOf(ctx, s, r); !found.Whole(s.DataEnd()) {
		return fmt.Errorf("node %s has %s of segment %d after the copy, not %s", r.Node, found.Tail, s.ID, s.DataEnd())
	}
	return nil
}

func (x *suffix) send(ctx context.Context, s *mq.Segment, r mq.Replica, raw [][]byte) error {
	if r.Store == x.self {
		return x.p.copyHere(ctx, s, raw)
	}
	c, err := x.p.env.Peers.Client(r.Store)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, pieceWait)
	defer cancel()
	res, err := c.CopyEntries(ctx, &mqpb.CopyEntriesRequest{Segment: uint64(s.ID), End: mqpb.FromPosition(s.End), Entries: raw, Fence: x.fence})
	if err == nil && !res.Known {
		err = fmt.Errorf("node %s does not take the copy: %s", r.Node, res.Reason)
	}
	return err
}

// copyHere takes entries of a sealed segment into this store.
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
