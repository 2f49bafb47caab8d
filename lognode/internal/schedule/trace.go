package schedule

import "github.com/splashdam/splashdam/shared/mq"

// The types of events in a trace. The release is lognode/internal/delivery's, with the rest of the message's life.
const (
	EventScheduled = "SCHEDULED"
	EventRetimed   = "RETIMED"
	EventCancelled = "CANCELLED"
)

// Event is something that the journal says about a schedule.
type Event struct {
	Type              string
	At                int64 // Unix nanoseconds
	Due               int64 // the due time from here on, 0 where there is none
	Producer, Gateway string
}

// TraceEntry calls f with what an entry says about a schedule, in order, and says where it is released in this entry.
func TraceEntry(e *mq.Entry, number uint64, f func(Event)) (offset uint64, released bool, err error) {
	var b Book
	err = b.eachRecord(e, func(rec mq.Record, first uint64) error {
		if rec.Kind == mq.KindCancelled {
			c, _ := readChange(rec.Body)
			switch {
			case c.number != number:
			case c.op == opCancel:
				f(Event{Type: EventCancelled, At: c.now})
			default:
				f(Event{Type: EventRetimed, At: c.now, Due: c.due})
			}
			return nil
		}
		i := indexOf(b.batch.Schedules, number)
		switch {
		case i < 0:
		case rec.Kind == mq.KindReleased:
			offset, released = first+uint64(i), true
		default:
			at, _, err := ReadScheduled(rec, &b.batch)
			if err != nil {
				return err
			}
			if at == 0 {
				at = e.Stamp
			}
			f(Event{Type: EventScheduled, At: at, Due: b.batch.Schedules[i].Due, Producer: b.batch.Batch.Producer, Gateway: b.batch.Batch.Gateway})
		}
		return nil
	})
	return offset, released, err
}

// Numbers calls f with the number of each schedule that an entry is about: stored or carried, moved, cancelled or released there.
func Numbers(e *mq.Entry, f func(number uint64)) error {
	var b Book
	return b.eachRecord(e, func(rec mq.Record, _ uint64) error {
		if rec.Kind == mq.KindCancelled {
			c, err := readChange(rec.Body)
			f(c.number)
			return err
		}
		for i := range b.batch.Schedules {
			f(b.batch.Schedules[i].Number)
		}
		return nil
	})
}

func indexOf(schedules []mq.Schedule, number uint64) int {
	for i := range schedules {
		if schedules[i].Number == number {
			return i
		}
	}
	return -1
}
