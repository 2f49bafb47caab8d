package replica

import (
	"context"
	"slices"

	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/shared/mq"
)

// maxParts bounds the full parts of one copy that wait to be written; beyond it the copy is indexed after its seal.
const maxParts = 4

// indexing derives the footer of one copy as its entries become durable, so that it is there when the segment is
// sealed or another leader takes over. The partition's goroutine owns it.
type indexing struct {
	b       *footer.Builder
	pending [][]byte // full parts on their way to the file
	size    int64    // of the file
	writing bool
}

// newIndexing is for a copy that has no entries yet. One that had some when this process began catches up if more come,
// and is indexed after its seal (Partition.DeriveFooter) if none do.
func newIndexing(s *mq.Segment) *indexing { return &indexing{b: footer.NewBuilder(s.ID, s.Base)} }

// index takes a durable entry. What goes wrong costs the help that a footer is, and nothing else.
func (p *Partition) index(h *held, data []byte) {
	x := h.index
	if x == nil {
		p.indexLate(h, data)
		return
	}
	e, err := mq.ParseEntryHeader(data)
	if err == nil && e.At.Before(x.b.To()) {
		return
	}
	if err == nil {
		err = x.b.Add(&e, len(data))
	}
	if err != nil {
		p.log.Warn("a segment is indexed after its seal only", "segment", h.copy.Segment().ID, "err", err)
		h.index = nil
		return
	}
	switch {
	case h.ended:
		p.endIndex(h)
	case x.b.Full():
		p.writePart(h, x.b.Next())
	}
}

// endIndex ends the footer of a segment whose end is decided, once all of it is here.
func (p *Partition) endIndex(h *held) {
	x, end := h.index, h.copy.End()
	switch {
	case x == nil || end == nil || x.b.To().Before(*end):
		return
	case *end != x.b.To(): // entries were cut: what was derived of them does not count
		h.index = nil
		return
	}
	if part := x.b.Next(); part != nil {
		p.writePart(h, part)
	} else if len(x.pending) == 0 {
		h.index = nil
	}
}

func (p *Partition) writePart(h *held, part []byte) {
	x := h.index
	if len(x.pending) >= maxParts {
		p.log.Warn("footers are written too slowly; a segment is indexed after its seal", "segment", h.copy.Segment().ID)
		h.index = nil
		return
	}
	x.pending = append(x.pending, part)
	if !x.writing {
		p.writeParts(h, x)
	}
}

// writeParts writes the parts that are pending, one after the other, beside the partition.
func (p *Partition) writeParts(h *held, x *indexing) {
	x.writing = true
	id, at, part := h.copy.Segment().ID, x.size, x.pending[0]
	p.beside(func(context.Context) {
		err := p.env.Store.WriteFooter(id, at, part)
		p.post(func() {
			x.writing = false
			if err != nil {
				p.log.Debug("a footer could not be written; it is derived later", "segment", id, "err", err)
				if h.index == x {
					h.index = nil
				}
				return
			}
			x.size += int64(len(part))
			x.pending = x.pending[1:]
			switch {
			case len(x.pending) > 0:
				p.writeParts(h, x)
			case h.index == x:
				if end := h.copy.End(); end != nil && *end == x.b.To() && x.b.From() == x.b.To() {
					h.index = nil // whole
					s := *h.copy.Segment()
					s.End = *end
					p.beside(func(context.Context) { p.keepFile(&s) })
				}
			}
		})
	})
}

// partsInMemory are, by segment, the parts of copies that their files may lack: they are asked for before the files are read.
func (p *Partition) partsInMemory(ctx context.Context, ids ...mq.SegmentID) map[mq.SegmentID][][]byte {
	ch := make(chan map[mq.SegmentID][][]byte, 1)
	ok := p.post(func() {
		parts := map[mq.SegmentID][][]byte{}
		for _, id := range ids {
			h := p.copies[id]
			if h == nil || h.index == nil {
				continue
			}
			of := slices.Clone(h.index.pending)
			if last := h.index.b.Encode(); last != nil {
				of = append(of, last)
			}
			if len(of) > 0 {
				parts[id] = of
			}
		}
		ch <- parts
	})
	if !ok {
		return nil
	}
	select {
	case parts := <-ch:
		return parts
	case <-ctx.Done():
		return nil
	}
}
