package replica

import (
	"context"
	"fmt"
	"sort"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// deadCount is how many dead letters are read at a time to be written again, deadBytes where that ends earlier.
	deadCount = 1000
	deadBytes = 4 << 20
)

// deadCarrying is the work of writing dead letters again before their segment is removed. It dies with the leadership.
type deadCarrying struct {
	end    mq.Position // of the segment; zero for nothing to do
	list   []uint64    // offsets that are to be read yet
	busy   bool
	ready  []*delivery.CarriedBatch // read, not placed yet
	placed mq.Position              // behind the last entry that carries something
	failed error                    // why the last reading failed; tried again when retention asks again
}

// carryDead begins to write the dead letters of a segment again that retention is to remove, and says whether nothing is
// left to do: then the segment may go.
func (p *Partition) carryDead(l *leadership, s *mq.Segment) bool {
	c := &l.dead
	if c.busy || len(c.ready) > 0 {
		return false
	}
	if c.failed != nil {
		p.log.Error("dead letters can't be carried forward, and keep their segment", "segment", s.ID, "err", c.failed)
	}
	c.end, c.failed = s.End, nil
	if c.list = l.machine.MustCarry(s.End); len(c.list) == 0 {
		return !l.seg.Commit().Before(c.placed)
	}
	p.readDead(l)
	return false
}

// readDead reads the next dead letters to be carried, beside the partition.
func (p *Partition) readDead(l *leadership) {
	c := &l.dead
	if c.busy || c.failed != nil || len(c.ready) > 0 || len(c.list) == 0 {
		return
	}
	c.busy = true
	j, list := l.journal(), c.list[:min(len(c.list), deadCount)]
	p.beside(func(ctx context.Context) {
		got, n, err := p.deadBatches(ctx, &j, list)
		p.post(func() {
			c.busy, c.ready, c.failed = false, got, err
			if c.list = c.list[n:]; err != nil {
				c.list = nil
			}
		})
	})
}

// deadBatches reads messages at ascending offsets in the form in which they are carried. n is how many it dealt with: all,
// or as many as are enough for now.
func (p *Partition) deadBatches(ctx context.Context, j *journal, offsets []uint64) (out []*delivery.CarriedBatch, n int, err error) {
	size := 0
	for n < len(offsets) && size < deadBytes {
		c, some, err := p.deadBatch(ctx, j, offsets[n:])
		if err == nil {
			err = c.Measure()
		}
		if err != nil {
			return out, n, fmt.Errorf("offset %d: %w", offsets[n], err)
		}
		out = append(out, c)
		n += len(some)
		size += len(c.Body)
	}
	return out, n, nil
}

func (p *Partition) deadBatch(ctx context.Context, j *journal, offsets []uint64) (*delivery.CarriedBatch, []uint64, error) {
	s := j.find(offsets[0])
	if s == nil {
		c, some, err := p.carriedBatch(ctx, j, offsets)
		if err != nil {
			return nil, nil, err
		}
		c, err = c.Part(some)
		return c, some, err
	}
	e, err := p.entry(ctx, j, offsets[0])
	if err != nil {
		return nil, nil, err
	}
	c, some, err := delivery.ToCarry(e, offsets)
	if err != nil {
		return nil, nil, err
	}
	c.Leader, c.Quorum = s.LeaderNode(), uint32(s.Quorum)
	for _, r := range s.Replicas {
		c.Replicas = append(c.Replicas, r.Node)
	}
	c.Committed, _, err = p.committedAt(ctx, j, e, some[len(some)-1])
	return c, some, err
}

// placeDead appends records of what was read to be carried and is wanted still, about as much as an entry may have.
func (l *leadership) placeDead(data []byte) []byte {
	c, size := &l.dead, 0
	for len(c.ready) > 0 && size < releaseBytes && len(data) <= entryAbout {
		b := c.ready[0]
		c.ready = c.ready[1:]
		wanted := b.Offsets[:0:0]
		for _, off := range b.Offsets {
			if l.machine.WantsCarry(off, c.end) {
				wanted = append(wanted, off)
			}
		}
		if len(wanted) == 0 {
			continue
		}
		some, err := b.Part(wanted)
		if err == nil {
			err = some.Measure()
		}
		if err != nil {
			c.failed = err
			continue
		}
		l.machine.Carry(l.seg.Next(), some)
		data = mq.AppendRecord(data, mq.KindCarried, some.AppendTo(nil))
		size += len(some.Body)
		c.placed = l.seg.Next().Next(0)
	}
	if len(c.ready) == 0 {
		c.ready = nil
	}
	return data
}

// carriedAt is where a message is that was carried, if it is.
func (j *journal) carriedAt(offset uint64) (delivery.Carried, bool) {
	i := sort.Search(len(j.carried), func(i int) bool { return j.carried[i].Offset >= offset })
	if i == len(j.carried) || j.carried[i].Offset != offset {
		return delivery.Carried{}, false
	}
	return j.carried[i], true
}

// carriedBatch reads the record to which the first of ascending offsets was carried, and says which of them it has.
func (p *Partition) carriedBatch(ctx context.Context, j *journal, offsets []uint64) (*delivery.CarriedBatch, []uint64, error) {
	c, ok := j.carriedAt(offsets[0])
	if !ok {
		return nil, nil, fmt.Errorf("offset %d is in no segment", offsets[0])
	}
	at, s := c.At, j.findAt(c.At)
	if s == nil { // not committed yet
		at, s = c.Was, j.findAt(c.Was)
	}
	if s == nil {
		return nil, nil, fmt.Errorf("offset %d was carried to %s, which is in no segment", offsets[0], c.At)
	}
	e := p.env.Cache.GetAt(s.ID, at)
	if e == nil {
		read, err := p.entryAt(ctx, j, at)
		if err != nil {
			return nil, nil, err
		}
		e = &read
		p.env.Cache.Put(e, mq.EntryHeaderSize+len(e.Records))
	}
	return delivery.FindCarried(e, offsets)
}

// carriedEntry is a carried message as the entry that it came in.
func (p *Partition) carriedEntry(ctx context.Context, j *journal, offset uint64) (*mq.Entry, error) {
	c, _, err := p.carriedBatch(ctx, j, []uint64{offset})
	if err != nil {
		return nil, err
	}
	return c.Entry(offset)
}
