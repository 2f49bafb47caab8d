package chaos

import (
	"fmt"
	"sync"

	"github.com/splashdam/splashdam/shared/client"
)

// coverage judges any group: it gets everything, and what it acknowledged stays away.
type coverage struct {
	group string
	broke func(format string, args ...any)

	mu        sync.Mutex
	seen      map[place]uint64 // the fence under which it was acknowledged; 0 while it was only delivered
	delivered int
	again     int
}

func (c *coverage) file(d *client.Delivery, fence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivered++
	if d.Attempt > 1 {
		c.again++
	}
	here := place{d.Partition, d.Offset}
	if at := c.seen[here]; at > 0 && fence >= at {
		c.broke("%s: %d/%d was delivered after it had been acknowledged", c.group, d.Partition, d.Offset)
	}
	c.seen[here] = max(c.seen[here], 0)
}

func (c *coverage) ack(d *client.Delivery, fence uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := place{d.Partition, d.Offset}
	c.seen[at] = max(c.seen[at], fence)
}

// compare holds what the journals hold against what the groups got.
func (tr *traffic) compare(places []place) {
	for _, c := range tr.covers {
		c.compare(places)
	}
}

// compare finds what the journals hold and the group never got, though it says that all is settled.
func (c *coverage) compare(places []place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range places {
		if _, ok := c.seen[at]; !ok {
			c.broke("%s: %d/%d was never delivered", c.group, at.partition, at.offset)
		}
	}
}

func (c *coverage) String() string {
	return fmt.Sprintf("%d deliveries of %d messages, %d of them not the first", c.delivered, len(c.seen), c.again)
}
