package chaos

import (
	"fmt"
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mq"
)

// moment is what is known of a message that has a time: to wait for, or to be wanted no longer.
type moment struct {
	id  string        // of the message, once it is answered
	due time.Time     // not delivered before; the zero time for what does not wait
	ttl time.Duration // not delivered later than that after its timestamp; 0 for any time

	stored    bool // a publish was answered
	unknown   bool // it may be stored, once
	cancelled bool // a cancel was answered with success
	perhaps   bool // a cancel was sent that was not answered

	at         place     // where it was seen
	stamp      time.Time // its timestamp, once it is delivered
	deliveries int
	fence      uint64 // of the acknowledgement
	read       int    // how often the journals hold it
}

// timed judges messages with times. All clocks are those of one machine, so nothing is allowed for them while none was made wrong, nor
// for the way from the leader to the client: a leader's hand-over is the end of the lease without the lease's length.
//
//   - Never early, but for what clocks may differ once one was made wrong: neither the timestamp, which is that of the release, nor the arrival lies before the due time.
//   - Exactly once, at one place; not at all once a cancel was answered; lost when none was.
//   - Never handed over after its TTL. What has one need not be delivered.
//   - What was acknowledged stays away.
type timed struct {
	run   uint32
	broke func(format string, args ...any)

	mu  sync.Mutex
	all []*moment

	// slack is what is allowed for clocks: nothing, or clocksDiffer once one was made wrong.
	slack time.Duration

	waited, cancels, retimes, delivered, expired int
}

// next makes a message. Its value names it, and says whether it may expire.
func (s *timed) next(due time.Time, ttl time.Duration) (id int, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, &moment{due: due, ttl: ttl})
	return len(s.all), s.value(len(s.all))
}

func (s *timed) value(id int) []byte {
	return fmt.Appendf(nil, "timed %d %d %d", s.run, id, s.all[id-1].ttl)
}

// parse finds out which message a value is; ok is false for one of another kind.
func (s *timed) parse(value []byte) (id int, ttl time.Duration, ok bool) {
	var run uint32
	n, err := fmt.Sscanf(string(value), "timed %d %d %d", &run, &id, &ttl)
	return id, ttl, err == nil && n == 3 && run == s.run
}

// mayExpire says whether a message may go without an acknowledgement.
func (s *timed) mayExpire(value []byte) bool {
	_, ttl, ok := s.parse(value)
	return ok && ttl > 0
}

func (s *timed) get(id int) *moment {
	if id < 1 || id > len(s.all) {
		return nil
	}
	return s.all[id-1]
}

// answered files where a message is, or that it waits, which is what it says.
func (s *timed) answered(id int, r client.Result) (waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.all[id-1]
	if m.stored {
		return false
	}
	m.stored, m.id = true, r.ID
	if !scheduled(r.ID) {
		s.place(id, m, place{r.Partition, r.Offset})
		return false
	}
	if r.DeliverAt.IsZero() { // an earlier try stored it, and it is released
		if s.waited++; !r.Duplicate {
			s.broke("timed message %d (%s) was answered without an offset and without its time", id, r.ID)
		}
		return false
	}
	s.waited++
	if r.DeliverAt.Before(m.due.Add(-s.slack)) {
		s.broke("timed message %d is due at %v and was answered with %v", id, m.due, r.DeliverAt)
	}
	m.due = r.DeliverAt
	return true
}

// scheduled says whether an id is that of a message that waited: such an answer has no offset.
func scheduled(id string) bool {
	parsed, err := mq.ParseMessageID(id)
	return err == nil && parsed.Scheduled
}

func (s *timed) place(id int, m *moment, at place) {
	if m.at != (place{}) && m.at != at {
		s.broke("timed message %d is at %v and at %v", id, m.at, at)
	}
	m.at = at
}

// clocksOff says that a clock is made wrong: what is stamped from now on may be off by a little.
func (s *timed) clocksOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slack = clocksDiffer
}

// file judges a delivery, in any group.
func (s *timed) file(d *client.Delivery) {
	now := time.Now()
	id, _, _ := s.parse(d.Value)
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.get(id)
	if m == nil {
		s.broke("%d/%d holds timed message %d, which was not sent", d.Partition, d.Offset, id)
		return
	}
	s.delivered++
	m.deliveries++
	m.stamp = d.Timestamp
	s.place(id, m, place{d.Partition, d.Offset})
	switch handed := d.LeaseExpiresAt.Add(-lease); {
	case now.Before(m.due.Add(-s.slack)) || d.Timestamp.Before(m.due.Add(-s.slack)):
		s.broke("timed message %d (%s, %d/%d) was due at %v, released at %v, and came at %v", id, d.ID, d.Partition, d.Offset, m.due, d.Timestamp, now)
	case m.cancelled:
		s.broke("timed message %d (%s, %d/%d) was cancelled, and came", id, d.ID, d.Partition, d.Offset)
	case m.ttl > 0 && handed.After(d.Timestamp.Add(m.ttl+s.slack)):
		s.broke("timed message %d (%s, %d/%d) of %v was handed over at %v, with a TTL of %v", id, d.ID, d.Partition, d.Offset, d.Timestamp, handed, m.ttl)
	}
}

// back judges a delivery in the group whose acknowledgements are filed with ack.
func (s *timed) back(d *client.Delivery, fence uint64) {
	id, _, _ := s.parse(d.Value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.get(id); m != nil && m.fence > 0 && fence >= m.fence {
		s.broke("timed message %d (%s, %d/%d) was delivered after it had been acknowledged", id, d.ID, d.Partition, d.Offset)
	}
}

// ack files an acknowledgement in the group that is judged for coming back.
func (s *timed) ack(d *client.Delivery, fence uint64) {
	id, _, _ := s.parse(d.Value)
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.get(id); m != nil {
		m.fence = max(m.fence, fence)
	}
}

// journaled files a message that a journal holds.
func (s *timed) journaled(id int, at place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.get(id)
	switch {
	case m == nil || !m.stored && !m.unknown:
		s.broke("%v holds timed message %d, which was not sent, or refused as not stored", at, id)
		return
	case m.cancelled:
		s.broke("%v holds timed message %d, which was cancelled", at, id)
	}
	if m.read++; m.read > 1 {
		s.broke("%v holds timed message %d a second time", at, id)
	}
	s.place(id, m, at)
}

// finish is called after a reading of the journals, in which all messages must have come, and begins a new one.
func (s *timed) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = 0
	for i, m := range s.all {
		id := i + 1
		switch {
		case m.stored && !m.cancelled && !m.perhaps && m.read == 0:
			s.broke("timed message %d (%s), due at %v, was acknowledged and is nowhere", id, m.id, m.due)
		case m.read > 0 && m.deliveries == 0 && m.ttl == 0:
			s.broke("timed message %d (%s) is at %v and was never delivered", id, m.id, m.at)
		case m.deliveries > 0 && m.cancelled:
			s.broke("timed message %d (%s) came before its cancel was answered with success", id, m.id)
		case m.deliveries > 0 && m.stamp.Before(m.due.Add(-s.slack)):
			s.broke("timed message %d (%s) was due at %v and released at %v", id, m.id, m.due, m.stamp)
		}
		if m.read > 0 && m.deliveries == 0 {
			s.expired++
		}
		m.read = 0
	}
}

func (s *timed) String() string {
	return fmt.Sprintf("%d messages, %d waited, %d cancelled, %d moved, %d deliveries, %d expired", len(s.all), s.waited, s.cancels, s.retimes, s.delivered, s.expired)
}
