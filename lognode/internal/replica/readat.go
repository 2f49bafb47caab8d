package replica

import (
	"context"
	"errors"
	"fmt"

	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// findAt is the segment that holds the entry at a position, or nil.
func (j *journal) findAt(at mq.Position) *mq.Segment {
	for i := range j.len() {
		if s := j.at(i); !at.Before(s.Base) && at.Before(s.End) {
			return s
		}
	}
	return nil
}

// entryAt reads the entry at a position. Its records are its own.
func (p *Partition) entryAt(ctx context.Context, j *journal, at mq.Position) (mq.Entry, error) {
	s := j.findAt(at)
	if s == nil {
		return mq.Entry{}, fmt.Errorf("position %s is in no segment", at)
	}
	var data []byte
	err := p.env.Store.Scan(s.ID, at, func(_ mq.Position, found []byte) bool {
		data = append(data, found...)
		return false
	})
	if data == nil && err == nil {
		err = store.ErrNotFound
	}
	if err != nil {
		if data, err = p.remoteEntry(ctx, s, &mqpb.ReadSegmentRequest{From: mqpb.FromPosition(at)}, err); err != nil {
			return mq.Entry{}, err
		}
	}
	e, err := mq.ParseEntry(data)
	if err == nil && e.At != at {
		err = fmt.Errorf("%w: the entry at %s is at %s", mq.ErrCorrupt, at, e.At)
	}
	return e, err
}

// readScheduled reads the messages of pending schedules, each with memory of its own, those due first before the others, until
// it has room bytes of them. dealt are those that it has read; with an error messages of some are missing.
func (p *Partition) readScheduled(ctx context.Context, j *journal, wanted []schedule.Wanted, room int) (dealt []schedule.Wanted, messages map[uint64]mq.Message, failed error) {
	byPlace := map[mq.Position][]schedule.Wanted{} // an entry is read once
	for _, w := range wanted {
		byPlace[w.At] = append(byPlace[w.At], w)
	}
	messages = make(map[uint64]mq.Message, len(wanted))
	for _, w := range wanted {
		there := byPlace[w.At]
		if len(there) == 0 {
			continue // with one that is due earlier
		}
		if room <= 0 {
			break
		}
		delete(byPlace, w.At)
		e, err := p.entryAt(ctx, j, w.At)
		if err == nil {
			err = schedule.Messages(&e, there, messages)
		}
		for i := range there {
			m := messages[there[i].Number]
			room -= m.Size()
		}
		dealt, failed = append(dealt, there...), errors.Join(failed, err)
	}
	return dealt, messages, failed
}

// scheduleOf is the schedule number of a message in an entry, if it is one that was released.
func scheduleOf(e *mq.Entry, offset uint64) (number uint64, ok bool) {
	err := released(e, func(off, n uint64) {
		if off == offset {
			number, ok = n, true
		}
	})
	return number, ok && err == nil
}

// released calls f for each message of an entry that was scheduled.
func released(e *mq.Entry, f func(offset, number uint64)) error {
	for b, err := range e.Batches() {
		if err != nil {
			return err
		}
		for i := range b.Schedules {
			f(b.First+uint64(i), b.Schedules[i].Number)
		}
	}
	return nil
}
