package mqpb

import "github.com/splashdam/splashdam/shared/mq"

// FromPartition, and its siblings below, turn vocabulary into wire types; the methods named MQ turn wire
// types into vocabulary. A nil message gives the zero value.
func FromPartition(p mq.PartitionID) *Partition {
	return &Partition{Topic: uint64(p.Topic), Number: p.Number}
}

// MQ is the partition's identity.
func (x *Partition) MQ() mq.PartitionID {
	return mq.PartitionID{Topic: mq.TopicID(x.GetTopic()), Number: x.GetNumber()}
}

// FromPosition makes a wire position.
func FromPosition(p mq.Position) *Position { return &Position{Offset: p.Offset, Seq: p.Seq} }

// MQ is the position.
func (x *Position) MQ() mq.Position { return mq.Position{Offset: x.GetOffset(), Seq: x.GetSeq()} }

// FromIncarnation makes a wire incarnation.
func FromIncarnation(i mq.Incarnation) *Incarnation {
	return &Incarnation{Store: string(i.Store), Boot: i.Boot}
}

// MQ is the incarnation.
func (x *Incarnation) MQ() mq.Incarnation {
	return mq.Incarnation{Store: mq.StoreID(x.GetStore()), Boot: x.GetBoot()}
}

// FromSegment makes a wire segment of an opening (not sealed).
func FromSegment(s *mq.Segment) *Segment {
	out := &Segment{Id: uint64(s.ID), Partition: FromPartition(s.Partition), Number: s.Number, Base: FromPosition(s.Base),
		Quorum: int32(s.Quorum), Leader: FromIncarnation(s.Leader)}
	for _, r := range s.Replicas {
		out.Replicas = append(out.Replicas, &Replica{Store: string(r.Store), Node: r.Node})
	}
	return out
}

// MQ is the segment.
func (x *Segment) MQ() mq.Segment {
	out := mq.Segment{ID: mq.SegmentID(x.GetId()), Partition: x.GetPartition().MQ(), Number: x.GetNumber(),
		Base: x.GetBase().MQ(), Quorum: int(x.GetQuorum()), Leader: x.GetLeader().MQ()}
	for _, r := range x.GetReplicas() {
		out.Replicas = append(out.Replicas, mq.Replica{Store: mq.StoreID(r.GetStore()), Node: r.GetNode()})
	}
	return out
}

// Left is up to where there is something of the segment to go on with: the copy's tail, or of a damaged one up to where it is
// intact with what other copies have of it. Of a damaged one it counts only for an operator.
func (x *SegmentState) Left() mq.Position {
	tail := x.GetTail().MQ()
	if together := x.GetTogether().MQ(); x.GetDamaged() && tail.Before(together) {
		return together
	}
	return tail
}
