package archive

import "sync"

// cache keeps what was read last, up to most bytes and maxCached items. The zero value but for most is ready.
type cache[T any] struct {
	most int

	mu    sync.Mutex
	items []cached[T] // the one used last is at the end
	bytes int
}

type cached[T any] struct {
	key  place
	v    T
	size int
}

// place is an object, or a part of it.
type place struct {
	key string
	at  int64
}

// maxCached bounds the items: looking through so few is cheaper than an index.
const maxCached = 128

func (c *cache[T]) get(key place) (v T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.items) - 1; i >= 0; i-- {
		if it := c.items[i]; it.key == key {
			copy(c.items[i:], c.items[i+1:])
			c.items[len(c.items)-1] = it
			return it.v, true
		}
	}
	return v, false
}

func (c *cache[T]) put(key place, v T, size int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items = append(c.items, cached[T]{key, v, size})
	c.bytes += size
	drop := 0
	for len(c.items)-drop > maxCached || c.bytes > c.most && drop < len(c.items) {
		c.bytes -= c.items[drop].size
		drop++
	}
	if drop > 0 {
		c.items = append(c.items[:0], c.items[drop:]...)
	}
}
