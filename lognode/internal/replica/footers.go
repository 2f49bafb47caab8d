package replica

import (
	"context"
	"errors"

	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
)

// withFooter calls f with the footer of a sealed segment, whole from base to end: the parts that are here, and what had
// to be derived from the entries, here or on another replica. It runs beside the partition. f may be called again,
// when it says footer.ErrDamaged: then everything is derived from the entries.
func (p *Partition) withFooter(ctx context.Context, s *mq.Segment, f func(*footer.Footer) error) error {
	return p.withFooterOf(ctx, s, p.partsInMemory(ctx, s.ID)[s.ID], f)
}

// withFooterOf is withFooter for who has asked for the parts in memory, and for those of other segments too.
func (p *Partition) withFooterOf(ctx context.Context, s *mq.Segment, memory [][]byte, f func(*footer.Footer) error) error {
	if end := s.DataEnd(); s.Base == end {
		return f(footer.New(s.ID, s.Base, &end))
	}
	err := p.useFooter(ctx, s, memory, f)
	if errors.Is(err, footer.ErrDamaged) {
		p.log.Warn("a footer is damaged, and derived anew", "segment", s.ID, "err", err)
		if err := p.env.Store.WriteFooter(s.ID, 0, nil); err != nil && !errors.Is(err, store.ErrUnknownSegment) {
			return err
		}
		err = p.useFooter(ctx, s, p.partsInMemory(ctx, s.ID)[s.ID], f)
	}
	return err
}

func (p *Partition) useFooter(ctx context.Context, s *mq.Segment, memory [][]byte, f func(*footer.Footer) error) error {
	end := s.DataEnd()
	ft := footer.New(s.ID, s.Base, &end)
	file, size, err := p.env.Store.OpenFooter(s.ID)
	at := int64(0)
	if err == nil {
		defer file.Close()
		at = ft.Read(file, size)
	}
	for _, part := range memory {
		ft.TakeBytes(part)
	}
	if ft.To == end {
		return f(ft)
	}
	keep := func(part []byte) {
		if info, ok := p.env.Store.Segment(s.ID); len(memory) > 0 || !ok || info.Damaged || info.Tail.Before(end) {
			return // the copy's own index writes the file, or there is no whole copy
		}
		if err := p.env.Store.WriteFooter(s.ID, at, part); err == nil {
			at += int64(len(part))
		}
	}
	if err := p.derive(ctx, s, ft, keep, unhurried); err != nil {
		return err
	}
	return f(ft)
}

// unhurried is for deriving what somebody waits for: it keeps to no rate.
func unhurried(context.Context, int) error { return nil }

// derive adds to a footer what it lacks up to the segment's end, from the entries. keep is given each part, and taken the
// bytes of journal that were read for it.
func (p *Partition) derive(ctx context.Context, s *mq.Segment, f *footer.Footer, keep func([]byte), taken func(context.Context, int) error) error {
	b := footer.NewBuilder(s.ID, f.To)
	read := 0
	take := func() {
		if part := b.Next(); part != nil && f.TakeBytes(part) {
			keep(part)
		}
	}
	err := p.walk(ctx, s, f.To, func(e *mq.Entry) error {
		size := mq.EntryHeaderSize + len(e.Records)
		if err := b.Add(e, size); err != nil {
			return err
		}
		if b.Full() {
			take()
		}
		if read += size; read >= fetchBytes {
			n := read
			read = 0
			return taken(ctx, n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	take()
	p.env.Metrics.Footers.Inc()
	return nil
}

// DeriveFooter makes the footer of a sealed segment whole, if this store has a whole copy and nothing is about to:
// what a restart interrupted, what a repair brought, what a disk lost. It reports whether it is whole, and what a new
// leader needs of it is in memory then, within the bound of that. taken is
// called for the bytes that were read, to keep to a rate.
func (p *Partition) DeriveFooter(ctx context.Context, s *mq.Segment, taken func(ctx context.Context, bytes int) error) (bool, error) {
	if s.Base == s.End {
		return true, nil
	}
	if !Resident(p.env.Store, s) || p.partsInMemory(ctx, s.ID)[s.ID] != nil {
		return false, nil
	}
	f := footer.New(s.ID, s.Base, &s.End)
	at := int64(0)
	if file, size, err := p.env.Store.OpenFooter(s.ID); err == nil {
		defer file.Close()
		at = f.Read(file, size)
	}
	if f.To == s.End {
		p.keep(f)
		return true, nil
	}
	var failed error
	err := p.derive(ctx, s, f, func(part []byte) {
		if failed == nil {
			failed = p.env.Store.WriteFooter(s.ID, at, part)
			at += int64(len(part))
		}
	}, taken)
	if err == nil && failed == nil && f.To == s.End {
		p.keep(f)
	}
	return err == nil && failed == nil, errors.Join(err, failed)
}
