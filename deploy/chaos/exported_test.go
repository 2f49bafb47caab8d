package chaos

import (
	"context"
	"fmt"
	"strconv"

	"github.com/splashdam/splashdam/shared/client"
)

// exported judges a group whose dead letters are published to another topic and stay where they are: what died never
// comes back, and has exactly one copy; nothing else has one.
type exported struct {
	coverage
	sent   map[place]uint64 // rejections that were sent: the fence of the hand-over if that was answered with success, else 0
	copies int
}

func newExported(broke func(string, ...any)) *exported {
	return &exported{coverage: coverage{group: exportGroup, broke: broke, seen: map[place]uint64{}}, sent: map[place]uint64{}}
}

func (tr *traffic) exporting() reader {
	s := tr.streams.exported
	return reader{group: exportGroup, settling: func(*client.Delivery) {}, acked: s.ack, rejectEvery: rejectEvery, rejecting: s.rejecting,
		delivered: func(_ int, d *client.Delivery, fence uint64) {
			s.file(d, fence)
			tr.fileTimed(d)
		}}
}

func (s *exported) file(d *client.Delivery, fence uint64) {
	s.coverage.file(d, fence)
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := s.sent[place{d.Partition, d.Offset}]; last > 0 && fence > last { // else it was handed out before, and was long on its way
		s.broke("%s: %d/%d was rejected and came back", s.group, d.Partition, d.Offset)
	}
}

// rejecting files that rejections are sent, and then those that were answered.
func (s *exported) rejecting(all []delivered) func(delivered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range all {
		at := place{d.Partition, d.Offset}
		s.sent[at] = s.sent[at]
	}
	return func(d delivered) {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := place{d.Partition, d.Offset}
		s.sent[at] = max(s.sent[at], d.fence)
	}
}

// audit reads the topic of the copies. dead is how many dead letters the group says it has.
func (s *exported) audit(ctx context.Context, c *client.Client, topic string, dead uint64) error {
	copies := map[place]int{}
	partition := func(m map[string]string) (place, error) {
		p, err := strconv.ParseUint(m["dead-letter-partition"], 10, 32)
		if err != nil {
			return place{}, err
		}
		o, err := strconv.ParseUint(m["dead-letter-offset"], 10, 64)
		return place{uint32(p), o}, err
	}
	s.mu.Lock()
	expected := len(s.sent)
	s.mu.Unlock()
	if expected > 0 {
		for m, err := range c.Messages(ctx, topic+deadSuffix, client.ReadOptions{From: "earliest", Limit: 1000}) {
			if err != nil {
				return fmt.Errorf("reading the copies of dead letters: %w", err)
			}
			at, err := partition(m.Headers)
			if err != nil || m.Headers["dead-letter-group"] != s.group || m.Headers["dead-letter-topic"] != topic {
				s.broke("%s: copy %s is of no message: %v", s.group, m.ID, m.Headers)
				continue
			}
			copies[at]++
		}
	}
	s.judge(copies, dead)
	return nil
}

func (s *exported) judge(copies map[place]int, dead uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.copies = len(copies)
	for at, n := range copies {
		if _, sent := s.sent[at]; !sent {
			s.broke("%s: %d/%d was never rejected, and has a copy", s.group, at.partition, at.offset)
		}
		if n > 1 {
			s.broke("%s: %d/%d has %d copies", s.group, at.partition, at.offset, n)
		}
	}
	for at, fence := range s.sent {
		if fence > 0 && copies[at] == 0 {
			s.broke("%s: %d/%d was rejected and has no copy", s.group, at.partition, at.offset)
		}
	}
	if uint64(len(copies)) != dead {
		s.broke("%s: there are copies of %d messages, and %d are dead", s.group, len(copies), dead)
	}
}
