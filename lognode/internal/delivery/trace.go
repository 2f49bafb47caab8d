package delivery

import (
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// The types of events in a trace.
const (
	EventPublished    = "PUBLISHED"
	EventReleased     = "RELEASED" // a schedule that was due, see lognode/internal/schedule for what came before
	EventDelivered    = "DELIVERED"
	EventRedelivered  = "REDELIVERED"
	EventAcknowledged = "ACKNOWLEDGED"
	EventNacked       = "NACKED"
	EventExtended     = "EXTENDED"
	EventExpired      = "EXPIRED"
	EventDead         = "DEAD"
	EventReturned     = "RETURNED"
	EventFiltered     = "FILTERED"
	EventSeek         = "SEEK"
	EventPostponed    = "POSTPONED"
	EventRedriven     = "REDRIVEN"
	EventDeadRemoved  = "DEAD_REMOVED"
	EventDeadExported = "DEAD_EXPORTED"
)

// Event is something that the journal says about one message.
type Event struct {
	Type    string
	At      int64 // Unix nanoseconds
	Group   mq.GroupID
	Attempt uint32 // 0 where the record does not say
	// Consumer and Until (the deadline) of a delivery; Until of an extension.
	Consumer string
	Until    int64
	// RetryAt is when a failed message is ready again.
	RetryAt int64
	Reason  string
	// Producer and Gateway of the publish.
	Producer, Gateway string
}

// Why an EXPIRED event has no retry: it is settled. With ReasonLapsed the hand-over before it did not happen.
const (
	reasonDropped = "removed by retention"
	ReasonLapsed  = "past its TTL"
)

var eventOf = [outcomes]string{outAcked: EventAcknowledged, outNacked: EventNacked, outExpired: EventExpired,
	outDead: EventDead, outExtended: EventExtended, outReturned: EventReturned, outPostponed: EventPostponed, outDropped: EventExpired,
	outLapsed: EventExpired, outFiltered: EventFiltered}

// TraceEntry calls f with what an entry says about the message at offset, in order. Records of kinds that this
// version does not know are passed over.
func TraceEntry(e *mq.Entry, offset uint64, f func(Event)) error {
	at := e.At.Offset
	var d delivered
	var s settled
	var r redriven
	var x deadRemoved
	var out deadExported
	var change groupChange
	for rec, err := range mq.Records(e.Records) {
		if err != nil {
			return err
		}
		if rec.Version != 1 {
			continue
		}
		switch rec.Kind {
		case mq.KindMessages, mq.KindReleased:
			b, _, schedules, _, err := mq.MessagesOf(rec)
			if err != nil {
				return err
			}
			switch has := offset >= at && offset-at < uint64(b.Count); {
			case has && schedules != nil:
				f(Event{Type: EventReleased, At: e.Stamp, Reason: "was due " + lateness(e.Stamp-schedules[offset-at].Due)})
			case has:
				f(Event{Type: EventPublished, At: e.Stamp, Producer: b.Producer, Gateway: b.Gateway})
			}
			at += uint64(b.Count)
		case mq.KindDelivered:
			if err := d.read(rec.Body); err != nil {
				return err
			}
			d.trace(offset, f)
		case mq.KindSettled:
			if err := s.read(rec.Body); err != nil {
				return err
			}
			s.trace(offset, f)
		case mq.KindGroup:
			if err := change.read(rec.Body); err != nil {
				return err
			}
			if change.op == groupSeek && offset < at {
				f(change.seek.event())
			}
		case mq.KindRedriven:
			if err := r.read(rec.Body); err != nil {
				return err
			}
			r.trace(offset, f)
		case mq.KindDeadRemoved:
			if err := x.read(rec.Body); err != nil {
				return err
			}
			x.trace(offset, f)
		case mq.KindDeadExported:
			if err := out.read(rec.Body); err != nil {
				return err
			}
			out.trace(offset, f)
		}
	}
	return nil
}

// lateness says how long after its due time a schedule was released.
func lateness(d int64) string {
	return time.Duration(max(d, 0)).Round(time.Microsecond).String() + " ago"
}

func (d *delivered) trace(offset uint64, f func(Event)) {
	for _, r := range d.runs {
		if offset < r.First || offset-r.First >= uint64(r.Count) {
			continue
		}
		ev := Event{Type: EventDelivered, At: d.now, Group: d.group, Attempt: r.Attempt, Consumer: d.consumer, Until: d.now + d.lease}
		if r.Attempt > 1 {
			ev.Type = EventRedelivered
		}
		f(ev)
	}
}

func (s *settled) trace(offset uint64, f func(Event)) {
	for _, x := range s.marks {
		if offset < x.first || offset-x.first >= x.count {
			continue
		}
		ev := Event{Type: eventOf[s.outcome], At: s.now, Group: s.group, Attempt: x.attempt, Reason: s.reason}
		switch s.outcome {
		case outNacked, outExpired, outPostponed:
			ev.RetryAt = x.due
		case outExtended:
			ev.Until = s.until
		case outDropped:
			ev.Reason = reasonDropped
		case outLapsed:
			ev.Reason = ReasonLapsed
		}
		f(ev)
	}
}
