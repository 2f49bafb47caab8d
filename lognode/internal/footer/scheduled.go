package footer

import (
	"encoding/binary"
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
)

// scheduled are the blocks of entries that hold messages which wait for their time. A leader that begins looks for the
// pending ones of its checkpoint there, and need not read what was published between them.
//
// Form: number of blocks | each: block (from the one before).
type scheduled struct {
	blocks *blocks
	list   []uint32
}

func (*scheduled) id() SectionID { return sectionScheduled }

func (x *scheduled) add(_ *mq.Entry, _ uint64, rec mq.Record) {
	if rec.Kind != mq.KindScheduled && rec.Kind != mq.KindCarried {
		return
	}
	block := uint32(len(x.blocks.list) - 1)
	if n := len(x.list); n == 0 || x.list[n-1] != block {
		x.list = append(x.list, block)
	}
}

func (x *scheduled) memory() int { return 4 * len(x.list) }

func (x *scheduled) append(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(x.list)))
	last := uint32(0)
	for _, n := range x.list {
		b = binary.AppendUvarint(b, uint64(n-last))
		last = n
	}
	return b
}

func (x *scheduled) reset() { x.list = nil }

// Scheduled lists the stretches of entries that may hold messages which wait for their time, in order.
func (f *Footer) Scheduled() (out []Span, err error) {
	for _, p := range f.Parts {
		form, err := p.section(sectionScheduled)
		if err != nil {
			return nil, err
		}
		r := mq.NewReader(form)
		numbers := make([]uint32, r.Count(1))
		last := uint32(0)
		for i := range numbers {
			last += r.Uint32()
			numbers[i] = last
		}
		if r.Err() != nil || r.Len() > 0 {
			return nil, fmt.Errorf("%w: blocks with schedules", ErrDamaged)
		}
		if len(numbers) == 0 {
			continue
		}
		list, err := p.blockList()
		if err != nil {
			return nil, err
		}
		if out, err = appendSpans(out, list, p.To, numbers); err != nil {
			return nil, err
		}
	}
	return out, nil
}
