package replica

import (
	"sync"

	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// cacheEntries and cacheBytes bound the entries that one node keeps after reading them: a consumer takes a
	// large entry in several calls. Looking through so few is cheaper than an index.
	cacheEntries = 32
	cacheBytes   = 16 << 20
)

// EntryCache holds the entries that were read last, of all partitions. Safe for use by many goroutines.
type EntryCache struct {
	mu    sync.Mutex
	items []cached // the one used last is at the end
	bytes int
}

type cached struct {
	e    *mq.Entry
	size int
}

// Get finds the entry of a segment that holds a message offset, or nil. It must not be changed.
func (c *EntryCache) Get(id mq.SegmentID, offset uint64) *mq.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.items) - 1; i >= 0; i-- {
		it := c.items[i]
		if it.e.Segment == id && it.e.At.Offset <= offset && offset < it.e.Next().Offset {
			copy(c.items[i:], c.items[i+1:])
			c.items[len(c.items)-1] = it
			return it.e
		}
	}
	return nil
}

// GetAt finds the entry at a position of a segment, or nil. It must not be changed.
func (c *EntryCache) GetAt(id mq.SegmentID, at mq.Position) *mq.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.items) - 1; i >= 0; i-- {
		it := c.items[i]
		if it.e.Segment == id && it.e.At == at {
			copy(c.items[i:], c.items[i+1:])
			c.items[len(c.items)-1] = it
			return it.e
		}
	}
	return nil
}

// Put keeps an entry of size bytes and drops the ones that were not used for longest.
func (c *EntryCache) Put(e *mq.Entry, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items = append(c.items, cached{e, size})
	c.bytes += size
	drop := 0
	for len(c.items)-drop > cacheEntries || c.bytes > cacheBytes && drop < len(c.items) {
		c.bytes -= c.items[drop].size
		drop++
	}
	if drop > 0 {
		c.items = append(c.items[:0], c.items[drop:]...)
	}
}
