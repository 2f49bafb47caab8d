package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/mq"
)

// carryCount is how many pending messages are read at a time to be written again.
const carryCount = 1000

// carrying is the work of writing pending messages again before the segment that holds them is removed.
type carrying struct {
	to     mq.Position // what lies before it is to be carried; zero for nothing
	busy   bool        // messages are being read
	ready  []carried   // read, not placed yet
	placed mq.Position // behind the last entry that carries something
	failed error       // why the last reading failed; tried again when retention asks again
}

// carried is a pending message that was read to be written again.
type carried struct {
	schedule.Wanted
	message   mq.Message
	scheduled int64 // when it was scheduled
}

// carryForward begins to write again what waits in a segment that retention is to remove, and says whether nothing is
// left to do: then the segment may go.
func (p *Partition) carryForward(l *leadership, s *mq.Segment) bool {
	c := &l.ahead.carry
	if len(l.book.Before(s.End, 1, nil)) == 0 && len(c.ready) == 0 && !c.busy {
		c.to = mq.Position{}
		return !l.seg.Commit().Before(c.placed)
	}
	if c.failed != nil {
		p.log.Error("messages that wait can't be carried forward, and keep their segment", "segment", s.ID, "err", c.failed)
	}
	c.to, c.failed = s.End, nil
	p.carryMore(l)
	return false
}

// carryMore reads the next messages to be carried, beside the partition.
func (p *Partition) carryMore(l *leadership) {
	a := l.ahead
	c := &a.carry
	if c.to == (mq.Position{}) || c.busy || c.failed != nil || len(c.ready) > 0 {
		return
	}
	list := l.book.Before(c.to, carryCount, nil)
	if len(list) == 0 || !schedule.Committed(list, l.seg.Commit()) {
		return
	}
	c.busy = true
	j := l.journal()
	p.beside(func(ctx context.Context) {
		got, err := p.readCarried(ctx, &j, list)
		p.post(func() {
			c.busy, c.ready, c.failed = false, got, err
			if l := p.lead; l != nil && l.ahead == a {
				a.Look()
			}
		})
	})
}

// readCarried reads pending messages with the time at which each was scheduled, until it has aheadBytes of them. list is in
// order of places.
func (p *Partition) readCarried(ctx context.Context, j *journal, list []schedule.Wanted) ([]carried, error) {
	var out []carried
	for size := 0; len(list) > 0 && size < aheadBytes; {
		n := 1
		for n < len(list) && list[n].At == list[0].At {
			n++
		}
		e, err := p.entryAt(ctx, j, list[0].At)
		if err != nil {
			return out, err
		}
		messages := map[uint64]mq.Message{}
		if err := schedule.Messages(&e, list[:n], messages); err != nil {
			return out, err
		}
		at, err := scheduledAt(&e)
		if err != nil {
			return out, err
		}
		for _, w := range list[:n] {
			m := messages[w.Number]
			out = append(out, carried{w, m, at})
			size += m.Size()
		}
		list = list[n:]
	}
	return out, nil
}

// scheduledAt is when the schedules of an entry were made; one that carries keeps the time of those that it carries.
func scheduledAt(e *mq.Entry) (int64, error) {
	var s mq.ScheduleBatch
	for rec, err := range mq.Records(e.Records) {
		if err != nil {
			return 0, err
		}
		if at, ok, err := schedule.ReadScheduled(rec, &s); err != nil {
			return 0, err
		} else if ok && at != 0 {
			return at, nil
		}
	}
	return e.Stamp, nil
}

// placeCarried appends records of what was read to be carried and is pending still, one for each time at which
// they were scheduled, about as much as an entry may have.
func (l *leadership) placeCarried(data []byte) []byte {
	c := &l.ahead.carry
	size := 0
	for len(c.ready) > 0 && size < releaseBytes && len(data) <= entryAbout {
		var b mq.BatchBuilder
		var schedules []mq.Schedule
		at := c.ready[0].scheduled
		for len(c.ready) > 0 && c.ready[0].scheduled == at && size < releaseBytes {
			x := &c.ready[0]
			if state, now := l.book.Look(x.Number); state == schedule.StatePending && now.At == x.At {
				b.Add(&x.message)
				size += x.message.Size() + 32
				schedules = append(schedules, now.Schedule)
			}
			c.ready = c.ready[1:]
		}
		if len(schedules) == 0 {
			continue
		}
		l.book.Carry(l.seg.Next(), schedules)
		raw := b.AppendTo(nil, "", "", mq.CodecNone, nil)
		data = mq.AppendRecord(data, mq.KindCarried, schedule.AppendCarried(nil, at, schedules, raw))
	}
	if len(c.ready) == 0 {
		c.ready = nil
	} else {
		l.ahead.Look()
	}
	if size > 0 {
		c.placed = l.seg.Next().Next(0)
	}
	return data
}
