package checker

import (
	"fmt"
	"strconv"
)

// Delivery is one message as a consumer got it.
type Delivery struct {
	// Consumer is a small number, one for each loop of receives: what it got is filed in the order in which
	// it came.
	Consumer  int
	Partition uint32
	Offset    uint64
	Attempt   uint32
	Fence     uint64 // see ParseFence
	Value     []byte // not kept
}

// Delivered files a delivery. It must be filed before the acknowledgement is sent.
func (c *Checker) Delivered(d Delivery) {
	id, ours, whole := parseValue(d.Value, c.options.Run)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !ours {
		c.report.Foreign++
		if c.options.Fresh {
			c.note(&c.report.Phantom, "%d/%d holds a value that this run did not send", d.Partition, d.Offset)
		}
		return
	}
	if id == 0 || int(id) > len(c.payloads) {
		c.note(&c.report.Phantom, "%d/%d holds message %d, which was not sent", d.Partition, d.Offset, id)
		return
	}
	if !whole || c.payloads[id-1].hash != sum(d.Value) {
		c.note(&c.report.Damaged, "%d/%d: the value of message %d is not the one that was sent", d.Partition, d.Offset, id)
	}
	c.report.Delivered++
	s := c.slot(d.Partition, d.Offset)
	c.assign(s, id, d.Partition, d.Offset)
	if s.acked && d.Fence >= s.fence {
		c.note(&c.report.CameBack, "%d/%d (message %d) was delivered after it had been acknowledged", d.Partition, d.Offset, id)
	}
	if d.Attempt == 1 {
		c.first(s, &d, c.payloads[id-1].key)
	}
	if s.deliveries > 0 {
		c.report.Redelivered++
	}
	if s.deliveries < 1<<16-1 {
		s.deliveries++
	}
}

// first checks a delivery that says that it is the first one of its message. Order holds for what one
// consumer sees of one key: deliveries to two consumers have no order that they could agree on.
func (c *Checker) first(s *slot, d *Delivery, key uint32) {
	if s.first {
		c.note(&c.report.FirstTwice, "%d/%d was delivered as attempt 1 twice", d.Partition, d.Offset)
	}
	again := s.deliveries > 0
	s.first = true
	if again || key == 0 || d.Consumer < 0 {
		return
	}
	for len(c.fresh) <= d.Consumer {
		c.fresh = append(c.fresh, nil)
	}
	seen := c.fresh[d.Consumer]
	if seen == nil {
		seen = make([]uint64, c.options.MaxKeys)
		c.fresh[d.Consumer] = seen
	}
	if last := &seen[key-1]; d.Offset+1 > *last {
		*last = d.Offset + 1
	} else {
		c.note(&c.report.Overtaken, "key %d: %d/%d was first delivered after offset %d", key-1, d.Partition, d.Offset, *last-1)
	}
}

// Acked files that an acknowledgement was answered with success. One that was not answered, or refused, is
// not filed.
func (c *Checker) Acked(number uint32, offset, fence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slot(number, offset)
	if s.acked {
		s.fence = max(s.fence, fence)
		return
	}
	s.acked, s.fence = true, fence
	c.report.Acked++
	if s.stored {
		c.unacked--
	}
}

// ParseFence makes a number of a fence's text (16 hex digits of the segment number, 16 of the lease
// counter) that keeps the order of fences as long as there are fewer than 2^24 segments and 2^40 leases in
// each.
func ParseFence(text string) (uint64, error) {
	if len(text) != 32 {
		return 0, fmt.Errorf("a fence has 32 hex digits, not %q", text)
	}
	segment, err := strconv.ParseUint(text[:16], 16, 24)
	if err != nil {
		return 0, fmt.Errorf("segment of fence %q: %w", text, err)
	}
	counter, err := strconv.ParseUint(text[16:], 16, 40)
	if err != nil {
		return 0, fmt.Errorf("counter of fence %q: %w", text, err)
	}
	return segment<<40 | counter, nil
}
