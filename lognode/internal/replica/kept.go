package replica

import (
	"container/list"
	"context"
	"errors"
	"sync"

	"github.com/splashdam/splashdam/lognode/internal/dedup"
	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/shared/mq"
)

// keptBytes bounds what a node keeps in memory of the footers of its sealed segments. Beyond it those go first that were
// taken up or used longest ago: whoever begins to lead reads theirs from the file, which is slower and nothing else.
const keptBytes = 64 << 20

// FooterCache holds what a new leader needs of footers (footer.Keep), so that an opening reads no file for each segment of its
// chain. What is in it never changes, as its segments are sealed: whoever takes it out checks that it reaches the end
// that the chain has. The zero value is ready. Safe for use by many goroutines.
type FooterCache struct {
	mu    sync.Mutex
	items map[mq.SegmentID]*list.Element
	order list.List // of *keptFooter, the one used last in front
	bytes int
	most  int // 0: keptBytes
}

type keptFooter struct {
	f     *footer.Footer
	bytes int
}

// get finds the footer of a segment that was kept up to its end, or nil.
func (c *FooterCache) get(id mq.SegmentID, end mq.Position) *footer.Footer {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.items[id]
	if at == nil {
		return nil
	}
	f := at.Value.(*keptFooter).f
	if f.To != end { // what lies behind was lost
		c.remove(at)
		return nil
	}
	c.order.MoveToFront(at)
	return f
}

// put keeps a footer of Keep, in the place of what was kept of its segment before.
func (c *FooterCache) put(f *footer.Footer, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.items[f.Segment]; at != nil {
		c.remove(at)
	}
	if c.items == nil {
		c.items = map[mq.SegmentID]*list.Element{}
	}
	c.items[f.Segment] = c.order.PushFront(&keptFooter{f, bytes})
	c.bytes += bytes
	most := keptBytes
	if c.most > 0 {
		most = c.most
	}
	for c.bytes > most {
		c.remove(c.order.Back())
	}
}

// drop forgets a segment.
func (c *FooterCache) drop(id mq.SegmentID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.items[id]; at != nil {
		c.remove(at)
	}
}

func (c *FooterCache) remove(at *list.Element) {
	kept := c.order.Remove(at).(*keptFooter)
	delete(c.items, kept.f.Segment)
	c.bytes -= kept.bytes
}

// keep takes up a footer that is whole, and returns what is kept of it; nil if it is damaged, which who reads it finds, and mends.
func (p *Partition) keep(f *footer.Footer) *footer.Footer {
	kept, bytes, err := f.Keep(p.env.Clock.Now() - int64(dedup.Window))
	if err != nil {
		return nil
	}
	p.env.Kept.put(kept, bytes)
	return kept
}

// keepFile takes up the footer in a file that was just made whole, if no leader has. It runs beside the partition.
func (p *Partition) keepFile(s *mq.Segment) {
	if p.env.Kept.get(s.ID, s.End) != nil {
		return
	}
	file, size, err := p.env.Store.OpenFooter(s.ID)
	if err != nil {
		return // the segment was removed
	}
	defer file.Close()
	f := footer.New(s.ID, s.Base, &s.End)
	if f.Read(file, size); f.To == s.End {
		p.keep(f)
	}
}

// withKept is withFooterOf for what footer.Keep takes: it reads the file only if that is not in memory, and then it is.
func (p *Partition) withKept(ctx context.Context, s *mq.Segment, memory [][]byte, f func(*footer.Footer) error) error {
	if kept := p.env.Kept.get(s.ID, s.DataEnd()); kept != nil {
		if err := f(kept); !errors.Is(err, footer.ErrNotKept) {
			return err // its sections were checked when it was kept
		}
	}
	return p.withFooterOf(ctx, s, memory, func(whole *footer.Footer) error {
		if kept := p.keep(whole); kept != nil {
			if err := f(kept); !errors.Is(err, footer.ErrNotKept) {
				return err
			}
		}
		return f(whole)
	})
}
