package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// A leader stores the packed body of a batch without looking into it. One that can't be unpacked (bits that were turned on the way to
// the leader, a codec of a later version) would come first in every receive and spoil it for the messages beside: so its
// messages fail, as if their consumer had said so, wait for the group's back-off and end as dead letters. The others can be had.

// unpackError is a body that can't be unpacked.
type unpackError struct{ err error }

func (e *unpackError) Error() string { return e.err.Error() }
func (e *unpackError) Unwrap() error { return e.err }

// undo gives back what was received, because each failed with err. Where that is that some can't be unpacked those fail before, and
// the result is an error (PartitionDamaged) that says that the others are there.
func (r *receive) undo(err error) error {
	err = r.putAside(err)
	r.giveBack()
	return err
}

// putAside has the messages fail that can't be unpacked, if that is what err says.
func (r *receive) putAside(err error) error {
	var unpack *unpackError
	if !errors.As(err, &unpack) {
		return err
	}
	ctx, cancel := context.WithTimeout(r.g.life, r.g.cfg.RequestTimeout)
	defer cancel()
	signer, failed := r.signer(), 0
	for i := range r.got {
		h := &r.got[i]
		f := frame.Settle{Partition: h.partition}
		for j := range h.Chunks {
			f.Items = r.unpackable(f.Items, signer, h, &h.Chunks[j])
		}
		if len(f.Items) == 0 {
			continue
		}
		failed += len(f.Items)
		if _, err := r.g.router.Call(ctx, h.partition, frame.TypeSettle, &f); err != nil {
			return err // they come again, and are put aside then
		}
	}
	r.g.log.Error("messages can't be unpacked and count as failed", slog.String("topic", r.topic.Name), slog.String("group", r.group.Name),
		slog.Int("messages", failed), slog.Any("error", err))
	return mqerr.New(mqerr.PartitionDamaged, "%d messages can't be unpacked and count as failed; ask again for the others", failed)
}

// unpackable appends a nack for each message of a chunk that can't be unpacked.
func (r *receive) unpackable(items []frame.SettleItem, signer *mq.ReceiptSigner, h *handed, c *frame.Chunk) []frame.SettleItem {
	b, err := mq.ParseBatch(c.Batch)
	if err != nil {
		return items
	}
	if _, err = r.g.packer.Body(&b, nil); err == nil {
		return items
	}
	add := func(ordinal uint64) {
		offset := c.First + ordinal
		at, ok := findRun(h.Runs, offset, 0)
		if !ok {
			return
		}
		receipt := r.receipt(h, &given{offset: offset, run: &h.Runs[at]})
		items = append(items, frame.SettleItem{Receipt: signer.AppendRaw(nil, &receipt), Outcome: frame.OutcomeNack, Delay: -1,
			Reason: fmt.Sprintf("it can't be unpacked: %v", err)})
	}
	for _, o := range c.Ordinals {
		add(uint64(o))
	}
	if len(c.Ordinals) == 0 {
		for o := range uint64(b.Count) {
			add(o)
		}
	}
	return items
}
