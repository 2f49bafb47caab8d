package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/shared/mq"
)

// maxLate bounds the entries that wait while a copy catches up, in bytes; beyond it the copy is indexed after its seal.
const maxLate = 32 << 20

// lateEntries are those of a copy that has entries from before this process began and has not indexed them: a follower
// that was restarted. The first entry that comes makes it read what is there; those that come meanwhile wait here.
type lateEntries struct {
	reading bool
	waiting [][]byte
	bytes   int
}

// indexLate takes a durable entry of a copy without an index.
func (p *Partition) indexLate(h *held, data []byte) {
	l := h.late
	if l == nil {
		return
	}
	if l.bytes += len(data); l.bytes > maxLate {
		h.late = nil
		return
	}
	l.waiting = append(l.waiting, data)
	if l.reading {
		return
	}
	l.reading = true
	e, err := mq.ParseEntryHeader(data)
	if err != nil {
		h.late = nil
		return
	}
	s := *h.copy.Segment()
	s.End = e.At
	p.beside(func(ctx context.Context) {
		x, err := p.catchUp(ctx, &s)
		p.post(func() {
			if h.late != l {
				return // too much came meanwhile
			}
			h.late = nil
			if err != nil {
				p.log.Debug("a segment is indexed after its seal only", "segment", s.ID, "err", err)
				return
			}
			h.index = x
			for _, data := range l.waiting {
				p.index(h, data)
			}
		})
	})
}

// catchUp derives the index of a copy's entries before s.End, beside the partition, and writes its full parts.
func (p *Partition) catchUp(ctx context.Context, s *mq.Segment) (*indexing, error) {
	f := footer.New(s.ID, s.Base, &s.End)
	x := &indexing{}
	if file, size, err := p.env.Store.OpenFooter(s.ID); err == nil {
		x.size = f.Read(file, size)
		_ = file.Close() // it was only read
	}
	x.b = footer.NewBuilder(s.ID, f.To)
	err := p.walk(ctx, s, f.To, func(e *mq.Entry) error {
		if err := x.b.Add(e, mq.EntryHeaderSize+len(e.Records)); err != nil || !x.b.Full() {
			return err
		}
		part := x.b.Next()
		if err := p.env.Store.WriteFooter(s.ID, x.size, part); err != nil {
			return err
		}
		x.size += int64(len(part))
		return nil
	})
	return x, err
}
