package lognode

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/replica"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// gather asks n things that answer by callback and waits for all of them, or for ctx.
func gather(ctx context.Context, n int, ask func(i int, done func())) error {
	if n == 0 {
		return nil
	}
	all := make(chan struct{})
	var left atomic.Int64
	left.Store(int64(n))
	for i := range n {
		ask(i, func() {
			if left.Add(-1) == 0 {
				close(all)
			}
		})
	}
	select {
	case <-all:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// Probe answers what this store knows of segments and changes nothing.
func (s *server) Probe(ctx context.Context, req *mqpb.ProbeRequest) (*mqpb.ProbeResponse, error) {
	states, err := s.states(ctx, req.Segments, func(p *replica.Partition, id mq.SegmentID, answer func(replica.State)) {
		p.Probe(id, answer)
	})
	// Asked after the states were taken: a copy that grew behind the answer to a later leader must not count here.
	if !s.node.env.Follows(req.Fence) {
		states = nil // what is missing in an answer is unknown
	}
	return &mqpb.ProbeResponse{Node: mqpb.FromIncarnation(s.node.store.Identity()), Segments: states}, err
}

// states asks the partition of each segment; one that is not held is unknown, which is never an empty tail.
func (s *server) states(ctx context.Context, ids []uint64, ask func(*replica.Partition, mq.SegmentID, func(replica.State))) ([]*mqpb.SegmentState, error) {
	out := make([]*mqpb.SegmentState, len(ids))
	err := gather(ctx, len(ids), func(i int, done func()) {
		id := mq.SegmentID(ids[i])
		out[i] = &mqpb.SegmentState{Segment: ids[i]}
		p := s.node.holder(id)
		if p == nil {
			done()
			return
		}
		info, _ := s.node.store.Segment(id)
		var intact mq.Position
		damaged := false
		if info.Damaged {
			var err error
			intact, err = s.node.store.Intact(id)
			damaged = err == nil
		}
		ask(p, id, func(st replica.State) {
			out[i] = &mqpb.SegmentState{Segment: ids[i], Known: st.Known, Tail: mqpb.FromPosition(st.Tail), Sealed: st.Sealed,
				Leads: st.Leads, Committing: st.Committing, LastStamp: info.LastStamp, Remade: st.Remade}
			if info.Tail == st.Tail && st.Known && !info.Damaged {
				out[i].Entries, out[i].Sum = info.Count, info.Sum
			}
			// Until an end is decided a copy may answer for what it acknowledged, though a read has met damage since.
			if damaged && (!st.Known || info.End != nil) {
				out[i].Known = false
				out[i].Damaged, out[i].Tail = true, mqpb.FromPosition(intact)
				if st.Together != (mq.Position{}) {
					out[i].Together = mqpb.FromPosition(st.Together)
				}
			}
			done()
		})
	})
	if err != nil {
		return nil, err // answers that are still to come write to out, which nobody reads any more
	}
	return out, nil
}

// Seal stops copies from taking entries, waits until what they took is durable, makes all flags durable with
// one sync, and answers the tails (R2).
func (s *server) Seal(ctx context.Context, req *mqpb.SealRequest) (*mqpb.SealResponse, error) {
	n := s.node
	if f := req.Fence; f != nil {
		if !n.env.Follows(f) {
			return &mqpb.SealResponse{Node: mqpb.FromIncarnation(n.store.Identity())}, nil
		}
		if err := n.store.SetNamed(f.Partition.MQ(), mq.Named{Number: f.Number, Revision: f.Revision}); err != nil {
			return nil, status.Errorf(codes.Internal, "remembering segment number %d: %v", f.Number, err)
		}
	}
	began := time.Now()
	known := make([]bool, len(req.Segments))
	err := gather(ctx, len(req.Segments), func(i int, done func()) {
		id := mq.SegmentID(req.Segments[i])
		p := n.holder(id)
		if p == nil {
			done()
			return
		}
		p.BeginSeal(id, func(k bool) {
			known[i] = k
			done()
		})
	})
	if err != nil {
		return nil, err
	}
	var ids []mq.SegmentID
	for i, id := range req.Segments {
		if known[i] {
			ids = append(ids, mq.SegmentID(id))
		}
	}
	// A damaged copy says nothing, but may count where an operator goes on with what is left: it takes nothing more either.
	damaged := slices.DeleteFunc(segmentIDs(req.Segments), func(id mq.SegmentID) bool {
		info, ok := n.store.Segment(id)
		return !ok || !info.Damaged || slices.Contains(ids, id)
	})
	drained := time.Since(began)
	if err := n.store.SealSegments(slices.Concat(ids, damaged)); err != nil {
		return nil, status.Errorf(codes.Internal, "making seal flags durable: %v", err)
	}
	if len(ids) > 0 {
		n.log.Info("sealed", "segments", ids, "reason", req.Reason, "drained", drained, "durable", time.Since(began)-drained)
	}
	answers := map[uint64]bool{}
	for _, id := range ids {
		answers[uint64(id)] = true
	}
	states, err := s.states(ctx, req.Segments, func(p *replica.Partition, id mq.SegmentID, answer func(replica.State)) {
		if !answers[uint64(id)] {
			p.Together(id, answer)
			return
		}
		p.Flagged(id, answer)
	})
	return &mqpb.SealResponse{Node: mqpb.FromIncarnation(n.store.Identity()), Segments: states}, err
}

func segmentIDs(list []uint64) []mq.SegmentID {
	out := make([]mq.SegmentID, len(list))
	for i, id := range list {
		out[i] = mq.SegmentID(id)
	}
	return out
}

// Create makes replicas of new segments durably. They serve only when etcd names them.
func (s *server) Create(ctx context.Context, req *mqpb.CreateRequest) (*mqpb.CreateResponse, error) {
	n := s.node
	if c := n.store.ClusterID(); req.Cluster != c {
		return nil, status.Errorf(codes.FailedPrecondition, "this node belongs to cluster %s, not to %s", c, req.Cluster)
	}
	res := &mqpb.CreateResponse{Node: mqpb.FromIncarnation(n.store.Identity())}
	var segs []mq.Segment
	for _, ns := range req.Segments {
		seg := ns.Segment.MQ()
		r := &mqpb.CreateResult{Segment: uint64(seg.ID), Ok: true}
		if seg.ReplicaIndex(n.store.Identity().Store) < 0 {
			r.Ok, r.Reason = false, "this store is not among the replicas"
		} else if !n.store.Named(seg.Partition).Follows(mq.Named{Number: seg.Number, Revision: ns.Revision}) {
			r.Ok, r.Reason = false, "a later segment of the partition was seen here (R7)"
		} else {
			seg.Compared = ns.Revision
			segs = append(segs, seg)
		}
		res.Results = append(res.Results, r)
	}
	began := time.Now()
	if err := n.store.CreateSegments(segs); err != nil {
		return nil, status.Errorf(codes.Internal, "making segments durable: %v", err)
	}
	for _, seg := range segs {
		if info, ok := n.store.Segment(seg.ID); ok {
			n.partition(seg.Partition).Adopt(info)
		}
	}
	durable := time.Since(began)
	s.foresee(ctx, segs)
	n.log.Info("made segments", "segments", len(segs), "durable", durable, "foreseen", time.Since(began)-durable)
	return res, nil
}

// foreseeWait bounds how long the answer to Create waits for the chains of what this node is to lead. A leader must read before it
// serves, so nobody loses by it; what comes later still counts.
const foreseeWait = time.Second

// foresee reads the chains under new segments that this node is to lead: now, for when etcd has named it it may be gone.
func (s *server) foresee(ctx context.Context, segs []mq.Segment) {
	ctx, cancel := context.WithTimeout(ctx, foreseeWait)
	defer cancel()
	var mine []*mq.Segment
	for i := range segs {
		if segs[i].Leader == s.node.store.Identity() {
			mine = append(mine, &segs[i])
		}
	}
	_ = gather(ctx, len(mine), func(i int, done func()) {
		s.node.goRun(func() {
			defer done()
			s.node.partition(mine[i].Partition).Foresee(s.node.ctx, mine[i], mine[i].Compared)
		})
	})
}

// EnsureGroup makes partitions led here know a group.
func (s *server) EnsureGroup(ctx context.Context, req *mqpb.EnsureGroupRequest) (*mqpb.EnsureGroupResponse, error) {
	g := req.Group
	c := delivery.GroupConfig{ID: mq.GroupID(g.GetId()), Name: g.GetName(), Version: g.GetVersion(), Paused: g.GetPaused()}
	if err := json.Unmarshal(g.GetSettings(), &c.Settings); err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "group settings: %v", err)
	}
	results, err := s.eachPartition(ctx, req.Partitions, func(p *replica.Partition, done func(error)) { p.EnsureGroup(c, req.FirstUse, done) })
	return &mqpb.EnsureGroupResponse{Results: results}, err
}

// DeleteGroup makes partitions led here forget a group.
func (s *server) DeleteGroup(ctx context.Context, req *mqpb.DeleteGroupRequest) (*mqpb.DeleteGroupResponse, error) {
	results, err := s.eachPartition(ctx, req.Partitions, func(p *replica.Partition, done func(error)) {
		p.DeleteGroup(mq.GroupID(req.Group), done)
	})
	return &mqpb.DeleteGroupResponse{Results: results}, err
}

// each asks several partitions the same; each has its own answer. absent is the one for a partition of which this node
// holds nothing.
func each[T any](ctx context.Context, s *server, list []*mqpb.Partition, absent func(*mqpb.Partition) T, ask func(*replica.Partition, func(T))) ([]T, error) {
	out := make([]T, len(list))
	err := gather(ctx, len(list), func(i int, done func()) {
		p := s.node.known(list[i].MQ())
		if p == nil {
			out[i] = absent(list[i])
			done()
			return
		}
		ask(p, func(v T) {
			out[i] = v
			done()
		})
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// eachPartition is each for what answers only whether it was done.
func (s *server) eachPartition(ctx context.Context, list []*mqpb.Partition, do func(*replica.Partition, func(error))) ([]*mqpb.PartitionResult, error) {
	result := func(p *mqpb.Partition, err error) *mqpb.PartitionResult {
		r := &mqpb.PartitionResult{Partition: p}
		if e := mqerr.Of(err); e != nil {
			r.Code, r.Detail = uint32(e.Code), e.Detail
		}
		return r
	}
	absent := func(p *mqpb.Partition) *mqpb.PartitionResult {
		return result(p, mqerr.New(mqerr.NotLeader, "this node holds nothing of the partition"))
	}
	return each(ctx, s, list, absent, func(p *replica.Partition, done func(*mqpb.PartitionResult)) {
		do(p, func(err error) { done(result(mqpb.FromPartition(p.ID()), err)) })
	})
}

// GroupFigures are the numbers of a group in partitions led here.
func (s *server) GroupFigures(ctx context.Context, req *mqpb.GroupFiguresRequest) (*mqpb.GroupFiguresResponse, error) {
	absent := func(p *mqpb.Partition) *mqpb.GroupFigures {
		return &mqpb.GroupFigures{Partition: p, Code: uint32(mqerr.NotLeader)}
	}
	out, err := each(ctx, s, req.Partitions, absent, func(p *replica.Partition, done func(*mqpb.GroupFigures)) {
		p.GroupFigures(mq.GroupID(req.Group), replica.Oldest{}, done)
	})
	if err != nil {
		return nil, err
	}
	return &mqpb.GroupFiguresResponse{Figures: out}, nil
}

// PartitionFigures are the numbers of partitions led here.
func (s *server) PartitionFigures(ctx context.Context, req *mqpb.PartitionFiguresRequest) (*mqpb.PartitionFiguresResponse, error) {
	absent := func(p *mqpb.Partition) *mqpb.PartitionFigures {
		return &mqpb.PartitionFigures{Partition: p, Code: uint32(mqerr.NotLeader)}
	}
	var settings *mq.TopicSettings
	if len(req.Settings) > 0 {
		settings = &mq.TopicSettings{}
		if err := json.Unmarshal(req.Settings, settings); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "topic settings: %v", err)
		}
	}
	out, err := each(ctx, s, req.Partitions, absent, func(p *replica.Partition, done func(*mqpb.PartitionFigures)) {
		p.Figures(settings, done)
	})
	if err != nil {
		return nil, err
	}
	return &mqpb.PartitionFiguresResponse{Figures: out}, nil
}

// one asks a single partition for one answer. Errors travel as gRPC errors with the code's name in front.
func one[T any](ctx context.Context, s *server, id *mqpb.Partition, ask func(*replica.Partition, func(T, error))) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var zero T
	p := s.node.known(id.MQ())
	if p == nil {
		return zero, mqpb.Status(mqerr.New(mqerr.NotLeader, "this node holds nothing of the partition"))
	}
	ch := make(chan answer, 1)
	ask(p, func(v T, err error) { ch <- answer{v, err} })
	select {
	case a := <-ch:
		if a.err != nil {
			return zero, mqpb.Status(a.err)
		}
		return a.v, nil
	case <-ctx.Done():
		return zero, status.FromContextError(ctx.Err()).Err()
	}
}

// HeldMessages lists what a group holds in a state.
func (s *server) HeldMessages(ctx context.Context, req *mqpb.HeldMessagesRequest) (*mqpb.HeldMessagesResponse, error) {
	return one(ctx, s, req.Partition, func(p *replica.Partition, done func(*mqpb.HeldMessagesResponse, error)) { p.Held(req, done) })
}

// Trace tells a message's life.
func (s *server) Trace(ctx context.Context, req *mqpb.TraceRequest) (*mqpb.TraceResponse, error) {
	return one(ctx, s, req.Partition, func(p *replica.Partition, done func(*mqpb.TraceResponse, error)) {
		if req.Scheduled {
			p.TraceScheduled(req.Number, req.Archived, done)
			return
		}
		p.Trace(req.Offset, req.Archived, done)
	})
}

// Explain says why a message is not delivered to a group now.
func (s *server) Explain(ctx context.Context, req *mqpb.ExplainRequest) (*mqpb.ExplainResponse, error) {
	return one(ctx, s, req.Partition, func(p *replica.Partition, done func(*mqpb.ExplainResponse, error)) { p.Explain(req, done) })
}

// Settlements tells the newest settlements of a group.
func (s *server) Settlements(ctx context.Context, req *mqpb.SettlementsRequest) (*mqpb.SettlementsResponse, error) {
	return one(ctx, s, req.Partition, func(p *replica.Partition, done func(*mqpb.SettlementsResponse, error)) {
		p.Settlements(mq.GroupID(req.Group), int(min(req.Limit, mq.MaxBatchMessages)), done)
	})
}

// ReadSegment reads entries of a segment held here, for the leader of its partition. Of a damaged one it gives what is
// intact: each entry has its own CRC, and the caller knows where the segment ends.
func (s *server) ReadSegment(_ context.Context, req *mqpb.ReadSegmentRequest) (*mqpb.ReadSegmentResponse, error) {
	id := mq.SegmentID(req.Segment)
	info, ok := s.node.store.Segment(id)
	if !ok {
		return &mqpb.ReadSegmentResponse{}, nil
	}
	res := &mqpb.ReadSegmentResponse{Known: true, Tail: mqpb.FromPosition(info.Tail)}
	if req.Holding {
		data, err := s.node.store.EntryAt(id, req.Offset)
		if err != nil {
			return nil, status.Errorf(codes.NotFound, "offset %d of segment %d: %v", req.Offset, id, err)
		}
		res.Entries = [][]byte{data}
		return res, nil
	}
	size, most := 0, min(int(req.MaxBytes), 8<<20)
	err := s.node.store.Scan(id, req.From.MQ(), func(_ mq.Position, data []byte) bool {
		if size += len(data); size > most && len(res.Entries) > 0 {
			return false // with a large one behind others the answer could be too large for a call
		}
		res.Entries = append(res.Entries, append([]byte(nil), data...))
		return true
	})
	if err != nil && len(res.Entries) == 0 {
		return nil, status.Errorf(codes.Internal, "reading segment %d: %v", id, err)
	}
	return res, nil
}

// CopyEntries brings a copy of a sealed segment nearer to its decided end.
func (s *server) CopyEntries(ctx context.Context, req *mqpb.CopyEntriesRequest) (*mqpb.CopyEntriesResponse, error) {
	id := mq.SegmentID(req.Segment)
	p := s.node.holder(id)
	if p == nil {
		return &mqpb.CopyEntriesResponse{Reason: "the segment is not held here"}, nil
	}
	if !s.node.env.Follows(req.Fence) {
		return &mqpb.CopyEntriesResponse{Reason: "a later segment of the partition was seen here (R7)"}, nil
	}
	entries := make([]mq.Entry, len(req.Entries))
	for i, raw := range req.Entries {
		var err error
		if entries[i], err = mq.ParseEntry(raw); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "entry %d: %v", i, err)
		}
	}
	ch := make(chan *mqpb.CopyEntriesResponse, 1)
	p.Copy(id, req.End.MQ(), entries, req.Entries, func(known bool, tail mq.Position) {
		ch <- &mqpb.CopyEntriesResponse{Known: known, Tail: mqpb.FromPosition(tail)}
	})
	select {
	case res := <-ch:
		return res, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}
