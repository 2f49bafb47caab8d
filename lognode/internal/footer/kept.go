package footer

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/splashdam/splashdam/lognode/internal/dedup"
)

// ErrNotKept says that what is asked of a footer in memory is in its file only.
var ErrNotKept = errors.New("footer: not in memory")

// keyForm is the section of keys, looked through.
type keyForm struct {
	form dedup.Form
	own  int // keys that were not carried forward from a segment before
}

// keptPart is about what a part takes in memory besides its sections, and a footer besides its parts.
const keptPart = 256

// Keep is what a new leader needs of a footer, lanes and idempotency keys, checked and in memory; of keys those parts that are
// younger than since, a stamp. All else that is asked of it fails with ErrNotKept. bytes is about what it takes. The footer
// itself, and what it was read from, may end before it.
func (f *Footer) Keep(since int64) (kept *Footer, bytes int, err error) {
	kept = &Footer{Segment: f.Segment, End: f.End, To: f.To, Parts: make([]*Part, len(f.Parts))}
	bytes = keptPart
	for i, p := range f.Parts {
		size := 0
		if kept.Parts[i], size, err = p.keep(since); err != nil {
			return nil, 0, err
		}
		bytes += keptPart + size
	}
	return kept, bytes, nil
}

func (p *Part) keep(since int64) (kept *Part, size int, err error) {
	lanes, err := p.section(sectionLanes)
	if err != nil {
		return nil, 0, err
	}
	kept = &Part{Segment: p.Segment, From: p.From, To: p.To, First: p.First, Last: p.Last, size: p.size, kept: true}
	for _, s := range p.sections {
		if s.id == sectionLanes {
			s.at = 0
			kept.sections, kept.r = []place{s}, bytes.NewReader(lanes)
		}
	}
	size = len(lanes)
	keys, err := p.find(sectionKeys)
	if err == nil && (p.Last >= since || keys.length == 0) {
		kept.keys, err = p.keyForm()
		size += int(keys.length)
	}
	return kept, size, err
}

// keyForm is the part's keys.
func (p *Part) keyForm() (*keyForm, error) {
	if p.keys != nil {
		return p.keys, nil
	}
	b, err := p.section(sectionKeys)
	if err != nil || len(b) == 0 {
		return &keyForm{}, err
	}
	form, own, err := dedup.ReadForm(b, p.First)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return &keyForm{form, own}, nil
}
