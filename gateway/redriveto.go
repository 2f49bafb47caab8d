package gateway

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// redriveTarget finds the topic that dead letters are to be published to. It must be there, and somebody must get what is
// published to it: a redrive to where nobody reads looks like a success and is a loss (museum 30).
func (g *Gateway) redriveTarget(ctx context.Context, w *deadWork) (t meta.Topic, err error) {
	if w.out.To == w.topic.Name {
		return t, invalid("/to", "must be another topic: leave it out to make them ready again for their group")
	}
	if t, err = g.currentTopic(ctx, w.out.To); err != nil {
		return t, err
	}
	read := func(v *meta.View) bool { return len(v.Groups(t.ID)) > 0 }
	if !read(g.view) {
		g.showIn(ctx, read) // it may have been made just now, elsewhere
	}
	if !read(g.view) {
		return t, invalid("/to", "topic %s has no group and no webhook, so nobody would get them: make one first", w.out.To)
	}
	return t, nil
}

// moveDead publishes dead letters to another topic and takes them from their group, partition by partition. Each is
// published with an idempotency key that names its death, and removed when that is committed: after a crash between, the
// same call finds it dead, publishes nothing a second time, and removes it.
func (g *Gateway) moveDead(ctx context.Context, w *deadWork, gr *meta.Group, target meta.Topic) error {
	parts, start := w.parts(), g.clock.now()
	for _, p := range parts {
		if w.left == 0 || pressed(ctx) {
			break
		}
		p.err = g.moveFrom(ctx, w, gr, p, target, start)
		p.done = p.err == nil
	}
	failed := w.sum(parts)
	if last := w.due(); w.out.Messages > 0 && last > 0 {
		w.out.ReadyBy = start.Add(last - w.interval).UTC()
	}
	return failed
}

// moveFrom moves the dead letters of one partition, page after page.
func (g *Gateway) moveFrom(ctx context.Context, w *deadWork, gr *meta.Group, p *deadPart, target meta.Topic, start time.Time) error {
	for {
		if w.left == 0 || pressed(ctx) || w.due() > mostSpread {
			w.out.More = true
			return nil
		}
		r, err := fromLeader(ctx, g, p.PartitionID, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.HeldMessagesResponse, error) {
			return c.HeldMessages(ctx, &mqpb.HeldMessagesRequest{Partition: mqpb.FromPartition(p.PartitionID), Group: uint64(gr.ID), State: "dead",
				From: p.from, Limit: uint32(min(w.left, exportBatch)), Filter: w.filterIn(p.Number)})
		})
		if err != nil {
			return err
		}
		next, err := g.movePage(ctx, w, gr, p, target, start, r)
		if err != nil || next == 0 {
			return err
		}
		p.from = next
	}
}

// movePage moves one page of dead letters. It says where the next one begins, 0 for none.
func (g *Gateway) movePage(ctx context.Context, w *deadWork, gr *meta.Group, p *deadPart, target meta.Topic, start time.Time, page *mqpb.HeldMessagesResponse) (next uint64, failed error) {
	pl := newPlan(g, target, len(page.GetMessages()))
	defer pl.release()
	next = page.GetNext()
	var sent []*mqpb.HeldMessage
	for _, d := range page.GetMessages() {
		if pl.bytes >= exportBatchBytes {
			next = d.GetOffset()
			break
		}
		m, _, release, err := g.deadLetter(ctx, w.topic, gr, p.PartitionID, d)
		if mqerr.Is(err, mqerr.MessageNotFound) {
			continue // it stays: what can't be read can't be published
		}
		if err != nil {
			return 0, err // nothing of the page is sent yet
		}
		at := int64(0)
		if due := w.due() + time.Duration(len(sent))*w.interval; due > 0 {
			at = start.Add(due).UnixNano()
		}
		setIdempotency(m, deathKey("redriven", gr, p.PartitionID, d))
		pl.add(m, anyPartition, at)
		release()
		sent = append(sent, d)
	}
	pl.send(ctx, g.cfg.Name)
	var stored []*mqpb.HeldMessage
	for i, d := range sent {
		switch _, err := pl.slots[i].result(); {
		case err == nil, err.Code == mqerr.IdempotencyConflict: // an earlier try of this death, with another time or less known of it
			stored = append(stored, d)
		default:
			failed = err
		}
	}
	if err := g.takeMoved(ctx, gr, p.PartitionID, stored); err != nil {
		return 0, err
	}
	n := uint64(len(stored))
	p.n += n
	w.left -= min(w.left, n)
	w.out.Messages += n
	return next, failed
}

// takeMoved takes dead letters from their group that are stored elsewhere now. Who was redriven meanwhile stays, also if it has
// died again: that is another death.
func (g *Gateway) takeMoved(ctx context.Context, gr *meta.Group, p mq.PartitionID, stored []*mqpb.HeldMessage) error {
	if len(stored) == 0 {
		return nil
	}
	var offsets []uint64
	since := int64(0)
	for _, d := range stored {
		offsets, since = append(offsets, d.GetOffset()), max(since, d.GetUntil())
	}
	for _, act := range []string{"export", "remove"} { // the trace tells both
		_, err := fromLeader(ctx, g, p, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.DeadLettersResponse, error) {
			return c.DeadLetters(ctx, &mqpb.DeadLettersRequest{Partition: mqpb.FromPartition(p), Group: uint64(gr.ID), Act: act, Since: since,
				Filter: &mqpb.DeadFilter{ByOffset: true, Offsets: offsets, Before: since + 1}, Limit: exportBatch})
		})
		if err != nil {
			return err
		}
	}
	return nil
}
