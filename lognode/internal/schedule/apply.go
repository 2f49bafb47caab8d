package schedule

import (
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// Apply replays a committed entry. Records of other kinds are passed over: lognode/internal/delivery refuses what nobody
// knows. An error changes nothing.
func (b *Book) Apply(e *mq.Entry) error {
	if err := b.eachRecord(e, func(mq.Record, uint64) error { return nil }); err != nil {
		return err
	}
	return b.eachRecord(e, func(rec mq.Record, offset uint64) error {
		switch rec.Kind {
		case mq.KindScheduled:
			for _, s := range b.batch.Schedules {
				if s.Number >= b.next {
					b.add(s, e.At)
				}
			}
			b.saw(len(b.batch.Schedules), len(rec.Body))
			b.next = max(b.next, b.batch.Schedules[len(b.batch.Schedules)-1].Number+1)
		case mq.KindCarried:
			b.carried(e.At)
		case mq.KindReleased:
			for i, s := range b.batch.Schedules {
				b.Release(s.Number, offset+uint64(i))
			}
		case mq.KindCancelled:
			switch c, _ := readChange(rec.Body); c.op {
			case opCancel:
				b.cancel(c.number)
			case opRetime:
				b.move(c.number, c.due)
			}
		}
		return nil
	})
}

// carried moves the places of what b.batch carries.
func (b *Book) carried(at mq.Position) {
	for _, s := range b.batch.Schedules {
		if p, i := b.find(s.Number); p != nil {
			p.insert(p.idx[i], p.due[i], at)
			b.order.fix(p)
		} else {
			b.restore(s, at) // the segment that held it was removed after the checkpoint
		}
	}
}

// Carry says that pending schedules are in the entry at now too; the caller writes the record.
func (b *Book) Carry(at mq.Position, schedules []mq.Schedule) {
	b.batch.Schedules = append(b.batch.Schedules[:0], schedules...)
	b.carried(at)
}

// eachRecord reads the records of an entry that are about schedules, those with messages into b.batch. offset is that of
// the record's first message.
func (b *Book) eachRecord(e *mq.Entry, f func(rec mq.Record, offset uint64) error) error {
	offset := e.At.Offset
	for rec, err := range mq.Records(e.Records) {
		if err != nil {
			return fmt.Errorf("schedule: entry at %s: %w", e.At, err)
		}
		count, ours, err := b.read(rec)
		if err == nil && ours {
			err = f(rec, offset)
		}
		if err != nil {
			return fmt.Errorf("schedule: entry at %s: %w", e.At, err)
		}
		offset += uint64(count)
	}
	return nil
}

// read reads a record; count is how many offsets it takes.
func (b *Book) read(rec mq.Record) (count int, ours bool, err error) {
	switch rec.Kind {
	case mq.KindMessages:
		batch, err := mq.ParseBatch(rec.Body)
		return batch.Count, false, err
	case mq.KindReleased:
		err := b.batch.Read(rec.Body)
		return b.batch.Batch.Count, true, err
	case mq.KindCancelled:
		_, err := readChange(rec.Body)
		return 0, true, err
	}
	_, ok, err := ReadScheduled(rec, &b.batch)
	return 0, ok, err
}

// restored is the pending numbers of a page in a checkpoint, as bits.
type restored [pageSize / 64]uint64

func (r *restored) has(i uint8) bool { return r[i/64]&(1<<(i%64)) != 0 }

func (r *restored) clear(i uint8) { r[i/64] &^= 1 << (i % 64) }

// Restoring says how many pending schedules of the checkpoint still lack their record: Restore must be called with the
// entries before the checkpoint's position, from From on.
func (b *Book) Restoring() int { return b.waiting }

// Restore reads an entry from before the checkpoint for the records of pending schedules. Entries must come in order.
func (b *Book) Restore(e *mq.Entry) error {
	return b.eachRecord(e, func(rec mq.Record, _ uint64) error {
		if rec.Kind != mq.KindScheduled && rec.Kind != mq.KindCarried {
			return nil
		}
		b.saw(len(b.batch.Schedules), len(rec.Body))
		for _, s := range b.batch.Schedules {
			b.restore(s, e.At)
		}
		return nil
	})
}

func (b *Book) restore(s mq.Schedule, at mq.Position) {
	if p, i := b.find(s.Number); p != nil { // carried: the later place counts, the earlier one may go
		p.insert(p.idx[i], p.due[i], at)
		return
	}
	if !b.waits(s.Number) {
		return
	}
	if due, ok := b.retimed[s.Number]; ok {
		s.Due = due
	}
	b.add(s, at)
	b.restoring[s.Number/pageSize].clear(uint8(s.Number % pageSize))
	b.waiting--
}

// waits says whether a number is pending and lacks its record yet.
func (b *Book) waits(number uint64) bool {
	set := b.restoring[number/pageSize]
	return set != nil && set.has(uint8(number%pageSize))
}

// unwait is finish for a number that lacks its record yet.
func (b *Book) unwait(number uint64) bool {
	if !b.waits(number) {
		return false
	}
	b.restoring[number/pageSize].clear(uint8(number % pageSize))
	b.waiting--
	delete(b.retimed, number)
	return true
}

// Restored ends the restoring, when everything behind the checkpoint is applied too, and answers how many pending schedules had no record any more: they are lost, as the range
// of the journal is that held them, and are not pending from here on.
func (b *Book) Restored() (lost int) {
	lost = b.waiting
	b.waiting, b.restoring = 0, nil
	for number := range b.retimed {
		if p, _ := b.find(number); p == nil {
			delete(b.retimed, number)
		}
	}
	return lost
}
