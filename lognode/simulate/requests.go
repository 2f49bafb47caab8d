package simulate

import (
	"fmt"
	"math"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// The types of the machine that users of a simulation need.
type (
	// Outcome is what a consumer says about a message.
	Outcome = delivery.Outcome
	// SettleItem settles one delivery.
	SettleItem = delivery.SettleItem
	// SettleResult is what became of it.
	SettleResult = delivery.SettleResult
	// GroupConfig is what a partition knows of a group.
	GroupConfig = delivery.GroupConfig
	// Code says how a settle item went.
	Code = delivery.Code
	// HeldMessage is one that a group holds.
	HeldMessage = delivery.HeldMessage
	// GroupFigures are the numbers of one group in a partition.
	GroupFigures = delivery.GroupFigures
)

// The outcomes and the codes of results.
const (
	Ack       = delivery.Ack
	Nack      = delivery.Nack
	Reject    = delivery.Reject
	Extend    = delivery.Extend
	Release   = delivery.Release
	SettleOK  = delivery.SettleOK
	StateDead = delivery.StateDead
)

// Appended answers a publish: its first offset, and in which segment and up to where it is.
type Appended struct {
	First   uint64
	Count   uint32
	Segment mq.SegmentID
	Next    mq.Position
	Stamp   int64
}

// Delivered is one message handed out.
type Delivered struct {
	Receipt mq.Receipt
	Message
	Attempt uint32
}

// Message is what a consumer gets of one beside its receipt. Stamp is when it was stored, by the journal.
type Message struct {
	Value []byte
	Stamp int64
	ttl   int64
}

// Received answers a receive. Decided is the true time at which the machine decided.
type Received struct {
	Messages []Delivered
	Until    int64
	Decided  int64
}

// Append publishes a batch of count messages to a partition.
func (n *Node) Append(id mq.PartitionID, body []byte, count int, reply func(Appended, error)) {
	n.serve(id, func(err error) { reply(Appended{}, err) }, func(_ *partition, l *leadership) {
		l.batches = append(l.batches, batch{body: body, count: uint32(count), placed: reply})
		l.batchBytes += len(body)
	})
}

// Receive hands out messages of a group. stream and handover name the hand-over.
func (n *Node) Receive(id mq.PartitionID, g mq.GroupID, most int, lease int64, stream, handover uint64, reply func(Received, error)) {
	p := n.partition(id)
	p.receive(delivery.ReceiveRequest{Group: g, Max: most, Lease: lease, Consumer: "c", Stream: stream, Delivery: handover}, 0, reply)
}

// receive has looked for keys so many times for the request.
func (p *partition) receive(r delivery.ReceiveRequest, learns int, reply func(Received, error)) {
	fail := func(err error) { reply(Received{}, err) }
	p.post(func() {
		p.whenServing(fail, func(l *leadership) {
			grant, err := l.machine.Receive(p.now(), r)
			if err != nil {
				fail(mqerr.New(mqerr.GroupNotFound, "%w", err))
				return
			}
			out := Received{Until: grant.LeaseUntil, Decided: p.node.host.True()}
			if grant.Why == delivery.WhyKeys && len(grant.Runs) == 0 && learns < maxLearns {
				p.learn(l, r.Group, grant.Need, func(err error) {
					if err != nil {
						fail(err)
						return
					}
					p.receive(r, learns+1, reply)
				})
				return
			}
			if len(grant.Runs) == 0 {
				reply(out, nil)
				return
			}
			if p.node.host.Mutation.UrgentHides && grant.Runs[0].First > 0 {
				l.machine.Settle(p.now(), []SettleItem{{Receipt: mq.Receipt{Partition: p.id, Offset: grant.Runs[0].First - 1, Group: r.Group,
					Generation: grant.Generation, Segment: grant.Segment}}}, nil)
			}
			hand := func() { p.handOut(l, grant, out, reply, r.Stream, r.Delivery) }
			if !grant.MustCommit {
				hand()
				return
			}
			l.answers.Later(func(err error) {
				if err != nil {
					fail(err)
					return
				}
				hand()
			})
		})
	})
}

// handOut reads what was granted. What can't be read goes back uncounted.
func (p *partition) handOut(l *leadership, grant delivery.Grant, out Received, reply func(Received, error), stream, handover uint64) {
	need := l.overlapping(func(s *mq.Segment) bool {
		for _, r := range grant.Runs {
			if r.First < s.End.Offset && s.Base.Offset < r.First+uint64(r.Count) {
				return true
			}
		}
		return false
	})
	deliver := func(all []mq.Entry, err error) {
		var back, gone []uint64
		found := messagesOf(all)
		for _, r := range grant.Runs {
			for i := range uint64(r.Count) {
				m, ok := found[r.First+i]
				if ok && p.past(&m) {
					gone = append(gone, r.First+i)
					continue
				}
				if !ok || err != nil {
					back = append(back, r.First+i)
					continue
				}
				out.Messages = append(out.Messages, Delivered{Message: m, Attempt: r.Attempt, Receipt: mq.Receipt{Partition: p.id,
					Offset: r.First + i, Group: grant.Group, Generation: grant.Generation, Segment: grant.Segment, Counter: r.Counter + i}})
			}
		}
		if len(back) > 0 {
			p.post(func() {
				if l := p.lead; l != nil && l.machine != nil {
					l.machine.Return(p.now(), stream, handover, back...)
				}
			})
		}
		if len(gone) > 0 {
			p.post(func() {
				if l := p.lead; l != nil && l.machine != nil {
					l.machine.Lapse(p.now(), stream, handover, gone)
				}
			})
		}
		if len(out.Messages) == 0 && len(back) == 0 {
			reply(out, nil) // its consumer asks again
			return
		}
		if len(out.Messages) == 0 {
			reply(out, mqerr.New(mqerr.Internal, "messages can't be read: %v", err))
			return
		}
		reply(out, nil)
	}
	first, last := uint64(math.MaxUint64), uint64(0)
	for _, r := range grant.Runs { // they ascend within a lane
		first, last = min(first, r.First), max(last, r.First+uint64(r.Count))
	}
	if all, ok := p.node.disk.holding(need, first, last); ok {
		deliver(all, nil)
		return
	}
	p.readAll(need, deliver)
}

// past says whether a message is past its TTL.
func (p *partition) past(m *Message) bool {
	rules := &p.node.host.Mutation
	return m.ttl > 0 && !rules.IgnoreTTL && (m.Stamp+m.ttl <= p.now() || rules.LapseEarly)
}

// overlapping are the segments of a leader's journal that f wants, oldest first; the open one up to what is committed.
func (l *leadership) overlapping(f func(s *mq.Segment) bool) (out []mq.Segment) {
	open := *l.seg.Segment()
	open.End = l.seg.Commit()
	for _, s := range append(append([]mq.Segment(nil), l.chain...), open) {
		if f(&s) {
			out = append(out, s)
		}
	}
	return out
}

// messagesOf are the messages in entries, by offset.
func messagesOf(all []mq.Entry) map[uint64]Message {
	out := map[uint64]Message{}
	for i := range all {
		_ = Messages(&all[i], func(offset uint64, m Message) { out[offset] = m })
	}
	return out
}

// Messages calls f with every message of an entry.
func Messages(e *mq.Entry, f func(offset uint64, m Message)) error {
	offset := e.At.Offset
	for b, err := range e.Batches() {
		if err != nil {
			return err
		}
		if err := b.Each(b.Packed(), func(_ int, m *mq.Message) bool {
			f(offset, Message{m.Value, e.Stamp, m.TTL})
			offset++
			return true
		}); err != nil {
			return err
		}
	}
	if offset != e.Next().Offset {
		return fmt.Errorf("the entry at %s holds messages up to %d, not %d", e.At, offset, e.Next().Offset)
	}
	return nil
}

// Settle settles deliveries and answers after commit.
func (n *Node) Settle(id mq.PartitionID, items []SettleItem, reply func([]SettleResult, error)) {
	n.serve(id, func(err error) { reply(nil, err) }, func(p *partition, l *leadership) {
		results := l.machine.Settle(p.now(), items, nil)
		l.answers.Later(func(err error) { reply(results, err) })
	})
}

// Confirm says that a hand-over reached its consumer.
func (n *Node) Confirm(id mq.PartitionID, stream, handover uint64) {
	p := n.partition(id)
	p.post(func() { p.confirm(stream, handover) })
}

func (p *partition) confirm(stream, handover uint64) {
	switch l := p.lead; {
	case l == nil:
	case !l.serving: // behind the receive that it is about
		if len(p.parked) < maxParked {
			p.parked = append(p.parked, func() { p.confirm(stream, handover) })
		}
	default:
		l.machine.Confirm(stream, handover)
	}
}

// StreamGone gives back what went out on a gateway's stream and was not confirmed.
func (n *Node) StreamGone(stream uint64) {
	for _, p := range n.order {
		p.post(func() {
			if l := p.lead; l != nil && l.machine != nil {
				l.machine.StreamGone(p.now(), stream)
			}
		})
	}
}

// Figures are the numbers of a group in a partition that this node leads and serves.
func (n *Node) Figures(id mq.PartitionID, g mq.GroupID) (GroupFigures, bool) {
	l := n.partition(id).lead
	if l == nil || !l.serving {
		return GroupFigures{}, false
	}
	return l.machine.Figures(g)
}

// Dead lists the dead letters of a group in a partition that this node leads and serves, by offset.
func (n *Node) Dead(id mq.PartitionID, g mq.GroupID) []HeldMessage {
	l := n.partition(id).lead
	if l == nil || !l.serving {
		return nil
	}
	return l.machine.Dead(g, delivery.DeadFilter{}, 0, math.MaxInt)
}

// Written says whether everything that this node has decided as the leader of a partition is committed.
func (n *Node) Written(id mq.PartitionID) bool {
	l := n.partition(id).lead
	return l != nil && l.serving && len(l.batches) == 0 && !l.answers.Waits() && l.machine.Pending() == 0 && l.book.Unwritten() == 0 &&
		l.seg.Commit() == l.seg.Next()
}

// Deaths counts the records in a journal by which a message is dead for a group.
func Deaths(journal map[mq.Position]mq.Entry, g mq.GroupID, offset uint64) (n int) {
	for _, e := range journal {
		_ = delivery.TraceEntry(&e, offset, func(e delivery.Event) {
			if e.Type == delivery.EventDead && e.Group == g {
				n++
			}
		})
	}
	return n
}

// Why is why a leader could not serve when it tried last.
func (n *Node) Why(id mq.PartitionID) string { return n.partition(id).why }
