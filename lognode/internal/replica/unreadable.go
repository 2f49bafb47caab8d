package replica

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// A sealed segment that a leader does not need to go on (its state is in a later checkpoint) can be damaged or gone on every
// replica while the partition is served. What is asked of it is then answered partition_damaged at once, groups pass its
// messages over and try them again later, and the leader looks whether a whole copy is back, or whether an operator
// gave the rest up.

const (
	// unreadableEvery is how often a leader looks whether what can't be read is there again, or was given up.
	unreadableEvery = time.Second
	// unreadableFor is how long a group leaves a message that can't be read.
	unreadableFor = 30 * time.Second
	// maxUnread bounds the messages of one receive that are tried in vain; then it answers with what there is.
	maxUnread = 1000
	// maxUnreadableTold bounds the ranges that figures show.
	maxUnreadableTold = 100
)

// unreadable is the answer about what no replica of a segment gives, and why that is so here. The leader is told.
func (p *Partition) unreadable(s *mq.Segment, what string, cause error) *mqerr.Error {
	topic, nodes := "TOPIC", make([]string, len(s.Replicas))
	if t, ok := p.env.Chain.Topic(p.id.Topic); ok && t.Name != "" {
		topic = t.Name
	}
	for i, r := range s.Replicas {
		nodes[i] = r.Node
	}
	e := mqerr.New(mqerr.PartitionDamaged, "%s can't be read: the segment of the offsets %d to %d is damaged or missing there on every "+
		"replica that answers (it was on %s). Everything else goes on. If a node had a whole copy, start it; if none has, "+
		"`splashdam cluster force-recover %s %d` shows what would be recorded as lost (%w)",
		what, s.Base.Offset, s.DataEnd().Offset-1, strings.Join(nodes, ", "), topic, p.id.Number, cause)
	id := s.ID
	p.post(func() { p.foundUnreadable(id) })
	return e
}

// unreadables are the sealed segments of which a leader could not read something from any replica.
type unreadables struct {
	ids      []mq.SegmentID
	watching bool
}

// foundUnreadable notes that something of a sealed segment can't be read, and watches it.
func (p *Partition) foundUnreadable(id mq.SegmentID) {
	l := p.lead
	if l == nil || !l.serving || slices.Contains(l.unreadable.ids, id) ||
		!slices.ContainsFunc(l.chain, func(s mq.Segment) bool { return s.ID == id }) {
		return
	}
	p.log.Error("a sealed segment can't be read whole from any replica that answers; the partition goes on without what is damaged", "segment", id)
	p.setUnreadable(l, append(slices.Clone(l.unreadable.ids), id))
	p.watchUnreadable(l, 0)
}

// unreadableRanges are the segments of which something can't be read and that end behind an offset, as ranges of offsets in
// order, those that touch as one; the first maxUnreadableTold.
func (l *leadership) unreadableRanges(behind uint64) (out []*mqpb.OffsetRange) {
	if len(l.unreadable.ids) == 0 {
		return nil
	}
	for i := range l.chain {
		s := &l.chain[i]
		if s.DataEnd().Offset <= behind || !slices.Contains(l.unreadable.ids, s.ID) {
			continue
		}
		if n := len(out); n > 0 && out[n-1].To == s.Base.Offset {
			out[n-1].To = s.DataEnd().Offset
		} else if n < maxUnreadableTold {
			out = append(out, &mqpb.OffsetRange{From: s.Base.Offset, To: s.DataEnd().Offset})
		}
	}
	return out
}

func (p *Partition) setUnreadable(l *leadership, ids []mq.SegmentID) {
	p.env.Metrics.Unreadable.Add(float64(len(ids) - len(l.unreadable.ids)))
	l.unreadable.ids = ids
}

func (p *Partition) watchUnreadable(l *leadership, after time.Duration) {
	if l.unreadable.watching || len(l.unreadable.ids) == 0 {
		return
	}
	l.unreadable.watching = true
	time.AfterFunc(after, func() {
		p.post(func() {
			ids := l.unreadable.ids
			if p.lead != l || len(ids) == 0 {
				l.unreadable.watching = false
				return
			}
			p.beside(func(context.Context) {
				mended, err := p.lookAtUnreadable(l.ctx, l.seg.Segment().ID, ids)
				p.post(func() { p.lookedAtUnreadable(l, mended, err) })
			})
		})
	})
}

// lookAtUnreadable says which segments are whole again somewhere. It records what is left out of them as lost if an operator
// says so; SetHead sees to what comes of that.
func (p *Partition) lookAtUnreadable(ctx context.Context, open mq.SegmentID, ids []mq.SegmentID) (mended []mq.SegmentID, err error) {
	head, chain, err := p.env.Chain.Chain(ctx, p.id)
	if err != nil || head.Open == nil || head.Open.ID != open {
		return nil, err
	}
	for _, id := range ids {
		i := slices.IndexFunc(chain, func(s mq.Segment) bool { return s.ID == id })
		if i < 0 || chain[i].Base == chain[i].DataEnd() || Resident(p.env.Store, &chain[i]) || p.wholeElsewhere(ctx, &chain[i]) {
			mended = append(mended, id)
		}
	}
	by, err := p.env.Chain.GetForce(ctx, p.id)
	if err != nil || len(mended) == len(ids) || !by.Stands(open) {
		return mended, err
	}
	judged := p.suffixFor(&head).lost(ctx, head, chain)
	now, _, err := p.env.Chain.Chain(ctx, p.id)
	if err == nil && segment.Lacks(head.Holes, &now) { // the wish is carried out: the controller is not to seal for it
		err = p.env.Chain.ForgetForce(ctx, p.id)
	}
	return mended, errors.Join(judged, err)
}

// lookedAtUnreadable forgets what is whole again.
func (p *Partition) lookedAtUnreadable(l *leadership, mended []mq.SegmentID, err error) {
	l.unreadable.watching = false
	if p.lead != l {
		return
	}
	if err != nil {
		p.log.Warn("what can't be read was looked at", "err", err)
	}
	if len(mended) > 0 {
		p.log.Info("sealed segments can be read again", "segments", mended)
		p.setUnreadable(l, slices.DeleteFunc(slices.Clone(l.unreadable.ids), func(id mq.SegmentID) bool { return slices.Contains(mended, id) }))
	}
	p.watchUnreadable(l, unreadableEvery)
}

// lookForDamage looks at a beginning leadership for sealed segments that are damaged here and whole nowhere.
func (p *Partition) lookForDamage(l *leadership) {
	var damaged []mq.Segment
	for _, s := range l.chain {
		if info, ok := p.env.Store.Segment(s.ID); ok && info.Damaged && s.Base != s.DataEnd() {
			damaged = append(damaged, s)
		}
	}
	if len(damaged) == 0 {
		return
	}
	p.beside(func(context.Context) {
		for i := range damaged {
			if s := &damaged[i]; !p.readable(l.ctx, s) {
				p.post(func() {
					if p.lead == l {
						p.foundUnreadable(s.ID)
					}
				})
			}
		}
	})
}

// unread takes back what turned out to be unreadable in a hand-over, for a while.
func (p *Partition) unread(r *receiving, offsets []uint64, why error) {
	if len(offsets) == 0 {
		return
	}
	p.env.Metrics.ReadErrors.Add(float64(len(offsets)))
	p.log.Error("messages can't be read; the group goes on without them for now", "group", r.Group, "first", offsets[0],
		"messages", len(offsets), "again_in", unreadableFor, "err", why)
	p.post(func() {
		if l := p.lead; l != nil && l.machine != nil {
			l.machine.Unread(p.env.Clock.Now(), r.stream, r.Handover, offsets, int64(unreadableFor), "it can't be read: it is damaged or missing on every replica that answers")
		}
	})
}
