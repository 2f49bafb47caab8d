package replay

import (
	"fmt"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// Item is a message that was read. Its bytes are its own: they stay valid.
type Item struct {
	ID      mq.MessageID
	Offset  uint64
	Stamp   int64 // Unix nanoseconds
	Message mq.Message
}

// Unpack gives the raw body block of a batch.
type Unpack func(*mq.Batch) ([]byte, error)

// appendItems appends the messages that the chunks name, in their order.
func appendItems(dst []Item, partition mq.PartitionID, chunks []frame.Chunk, unpack Unpack) ([]Item, error) {
	for i := range chunks {
		var err error
		if dst, err = appendChunk(dst, partition, &chunks[i], unpack); err != nil {
			return dst, fmt.Errorf("replay: batch at offset %d of partition %s: %w", chunks[i].First, partition, err)
		}
	}
	return dst, nil
}

func appendChunk(dst []Item, partition mq.PartitionID, c *frame.Chunk, unpack Unpack) ([]Item, error) {
	batch, err := mq.ParseBatch(c.Batch)
	if err != nil {
		return dst, err
	}
	if c.Sliced && len(c.Ordinals) != batch.Count {
		return dst, fmt.Errorf("%d ordinals for %d messages", len(c.Ordinals), batch.Count)
	}
	body, err := unpack(&batch)
	if err != nil {
		return dst, err
	}
	wanted, meant := 0, 0
	err = batch.Each(body, func(i int, m *mq.Message) bool {
		ordinal := uint32(i)
		if len(c.Ordinals) > 0 {
			if wanted == len(c.Ordinals) {
				return false
			}
			if !c.Sliced && c.Ordinals[wanted] != ordinal {
				return true
			}
			ordinal = c.Ordinals[wanted]
			wanted++
		}
		// Each reuses its message and the headers in it.
		own := *m
		own.Headers = append([]mq.Header(nil), m.Headers...)
		offset := c.First + uint64(ordinal)
		dst = append(dst, Item{ID: c.ID(partition, meant, offset), Offset: offset, Stamp: c.Stamp, Message: own})
		meant++
		return true
	})
	if err == nil && wanted != len(c.Ordinals) {
		err = fmt.Errorf("%d of %d ordinals are there", wanted, len(c.Ordinals))
	}
	return dst, err
}
