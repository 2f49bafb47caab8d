package gateway

import (
	"context"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// describeTopic puts together what etcd and the leaders say of a topic.
func (g *Gateway) describeTopic(ctx context.Context, t meta.Topic) api.Topic {
	parts := allPartitions(t)
	figures := g.partitionFigures(ctx, parts)
	out := api.Topic{TopicSummary: g.summary(t, figures), Settings: t.Settings,
		Idempotency: api.IdempotencyWindow{Time: api.Duration(mq.IdempotencyWindow), Keys: mq.IdempotencyKeys}, Partitions: make([]api.Partition, 0, len(parts))}
	for _, p := range parts {
		out.Partitions = append(out.Partitions, g.describePartition(p, figures[p]))
	}
	return out
}

// summarizeTopics asks each leader once for the figures of all topics of a page.
func (g *Gateway) summarizeTopics(ctx context.Context, topics []meta.Topic) []api.TopicSummary {
	var parts []mq.PartitionID
	for _, t := range topics {
		parts = append(parts, allPartitions(t)...)
	}
	figures := g.partitionFigures(ctx, parts)
	out := make([]api.TopicSummary, len(topics))
	for i, t := range topics {
		out[i] = g.summary(t, figures)
	}
	return out
}

// summary sums the figures of a topic's partitions.
func (g *Gateway) summary(t meta.Topic, figures map[mq.PartitionID]told[*mqpb.PartitionFigures]) api.TopicSummary {
	out := api.TopicSummary{Name: t.Name, State: g.topicState(t), Created: t.Created, PartitionCount: int(t.Settings.Partitions)}
	for _, p := range allPartitions(t) {
		f := figures[p]
		if f.err != nil {
			out.Partial = true
			if takingOver(f.err) && out.State != api.StateDeleting && out.State != api.StateReadOnly {
				out.State = api.StateOpening
			}
			continue
		}
		if f.answer.GetReadOnly() != "" && out.State != api.StateDeleting {
			out.State = api.StateReadOnly
		}
		out.Messages += kept(f.answer)
		out.Bytes += f.answer.GetBytes()
		out.Scheduled += f.answer.GetScheduled()
		out.PublishRate += f.answer.GetPublishRate()
		out.DeliverRate += f.answer.GetDeliverRate()
	}
	return out
}

// topicState is the worst state of a topic's partitions.
func (g *Gateway) topicState(t meta.Topic) string {
	if t.Deleted {
		return api.StateDeleting
	}
	state := api.StateReady
	for _, p := range allPartitions(t) {
		h, _ := g.view.Head(p)
		switch g.partitionState(&h) {
		case api.StateOpening:
			return api.StateOpening
		case api.StateDegraded:
			state = api.StateDegraded
		}
	}
	return state
}

// partitionState says how a partition serves, by what etcd says: its open segment, and which nodes live.
func (g *Gateway) partitionState(h *mq.Head) string {
	if !headLed(g.view, h) {
		return api.StateOpening
	}
	if g.livingReplicas(h.Open) < max(h.Replicas, len(h.Open.Replicas)) {
		return api.StateDegraded
	}
	return api.StateReady
}

// takingOver says that a node which etcd names as leader takes nothing: it has not begun to lead, or hears too few replicas.
func takingOver(err error) bool {
	return mqerr.Is(err, mqerr.NoLeader) || mqerr.Is(err, mqerr.NotLeader) || mqerr.Is(err, mqerr.NoQuorum)
}

// livingReplicas counts the replicas whose store is registered.
func (g *Gateway) livingReplicas(s *mq.Segment) int {
	living := 0
	for _, r := range s.Replicas {
		if g.alive(r) {
			living++
		}
	}
	return living
}

// alive says that a replica's node is registered with the store that holds the replica: a node that lost its
// directory is another replica.
func (g *Gateway) alive(r mq.Replica) bool {
	n, ok := g.view.Node(r.Node)
	return ok && n.Store == r.Store
}

// kept is how many messages a partition keeps: not what is recorded as lost.
func kept(f *mqpb.PartitionFigures) uint64 {
	n := f.GetNext() - min(f.GetFirst(), f.GetNext())
	return n - min(n, f.GetLost())
}

// describeHoles are the ranges of a partition that are recorded as lost.
func describeHoles(holes []mq.Hole) []api.LostRange {
	var out []api.LostRange
	for _, h := range holes {
		if h.From.Offset < h.To.Offset {
			out = append(out, api.LostRange{From: h.From.Offset, To: h.To.Offset, At: h.At.UTC(), Forced: h.By != "", By: h.By, Node: h.Node})
		}
	}
	return out
}

func describeRanges(list []*mqpb.OffsetRange) []api.OffsetRange {
	var out []api.OffsetRange
	for _, r := range list {
		out = append(out, api.OffsetRange{From: r.GetFrom(), To: r.GetTo()})
	}
	return out
}

func (g *Gateway) describePartition(p mq.PartitionID, f told[*mqpb.PartitionFigures]) api.Partition {
	h, _ := g.view.Head(p)
	out := api.Partition{Partition: p.Number, State: g.partitionState(&h), AckQuorum: h.Quorum, Replicas: []api.Replica{},
		Lost: describeHoles(h.Holes)}
	if h.Open != nil {
		out.Leader, out.AckQuorum = h.Open.LeaderNode(), h.Open.Quorum
		for _, r := range h.Open.Replicas {
			out.Replicas = append(out.Replicas, api.Replica{Node: r.Node, Leader: r.Store == h.Open.Leader.Store, Alive: g.alive(r)})
		}
	}
	if f.err != nil {
		if takingOver(f.err) {
			out.State = api.StateOpening
		}
		out.Error = api.ItemErrorOf(f.err)
		return out
	}
	a := f.answer
	out.PartitionFigures = &api.PartitionFigures{FirstOffset: a.GetFirst(), NextOffset: a.GetNext(), Messages: kept(a), Bytes: a.GetBytes(),
		Segments: a.GetSegments(), Scheduled: a.GetScheduled(), NextDue: timeOf(a.GetNextDue()), PublishRate: a.GetPublishRate(),
		DeliverRate: a.GetDeliverRate(), Unreadable: describeRanges(a.GetUnreadable()),
		Idempotency: api.IdempotencyFigures{Keys: a.GetIdempotencyKeys(), Oldest: timeOf(a.GetOldestKey())}}
	if why := a.GetReadOnly(); why != "" {
		out.State, out.Error = api.StateReadOnly, api.ItemErrorOf(mqerr.New(mqerr.PartitionDamaged, "%s", why))
	}
	for i := range out.Replicas {
		if out.Replicas[i].Leader {
			out.Replicas[i].BehindBytes = new(uint64)
		}
		for _, follower := range a.GetFollowers() {
			if follower.GetNode() == out.Replicas[i].Node {
				out.Replicas[i].BehindBytes = &follower.BehindBytes
			}
		}
	}
	return out
}
