package schedule

import (
	"errors"
	"fmt"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// Messages adds the wanted messages of an entry to out, each with memory of its own. An error that one is missing comes with the others.
func Messages(e *mq.Entry, wanted []Wanted, out map[uint64]mq.Message) error {
	numbers := make(map[uint64]bool, len(wanted))
	for _, w := range wanted {
		numbers[w.Number] = true
	}
	var s mq.ScheduleBatch
	for rec, err := range mq.Records(e.Records) {
		if err != nil {
			return err
		}
		if _, ok, err := ReadScheduled(rec, &s); err != nil {
			return err
		} else if ok {
			if err := ownMessages(&s, numbers, out); err != nil {
				return err
			}
		}
	}
	for _, w := range wanted {
		if _, ok := out[w.Number]; !ok {
			return fmt.Errorf("%w: the entry at %s does not hold schedule %d", mq.ErrCorrupt, e.At, w.Number)
		}
	}
	return nil
}

// ownMessages copies the messages with these numbers out of a record: a few of them must not keep all in memory.
func ownMessages(s *mq.ScheduleBatch, numbers map[uint64]bool, out map[uint64]mq.Message) error {
	var ordinals []int
	for i := range s.Schedules {
		if numbers[s.Schedules[i].Number] {
			ordinals = append(ordinals, i)
		}
	}
	if len(ordinals) == 0 {
		return nil
	}
	raw, ok, err := s.Batch.Slice(nil, ordinals)
	if err == nil && !ok {
		err = errors.New("a batch of schedules is compressed")
	}
	if err != nil {
		return err
	}
	b, err := mq.ParseBatch(raw)
	if err != nil {
		return err
	}
	return b.Each(b.Packed(), func(i int, m *mq.Message) bool {
		own := *m
		own.Headers = slices.Clone(m.Headers)
		out[s.Schedules[ordinals[i]].Number] = own
		return true
	})
}
