package schedule

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/splashdam/splashdam/shared/mq"
)

// The state in a checkpoint: version (1) | next number | lowest place of a message that is pending | pages: gap from the
// page before | how many are pending - 1 (1) | nothing if all are, their places (1 each) if they are few, else a
// bit for each number | re-timed: number (gap) | due (signed, from the one before) | cancelled, the oldest first:
// number (signed, from the one before).

const stateVersion = 1

// ErrState says that a state in a checkpoint can't be read: an older checkpoint will do.
var ErrState = errors.New("schedule: the state in the checkpoint can't be read")

// fewInPage is up to how many pending ones a page is written as a list.
const fewInPage = pageSize / 8

// AppendState appends the state for a checkpoint; nothing for a book that was never used.
func (b *Book) AppendState(dst []byte) []byte {
	if b.next == 0 {
		return dst
	}
	dst = append(dst, stateVersion)
	dst = binary.AppendUvarint(dst, b.next)
	dst = mq.AppendPosition(dst, b.Oldest())
	dst = binary.AppendUvarint(dst, uint64(len(b.pages)))
	at := uint64(0)
	for _, key := range slices.Sorted(maps.Keys(b.pages)) {
		p := b.pages[key]
		dst = binary.AppendUvarint(dst, key-at)
		dst = append(dst, byte(len(p.idx)-1))
		switch {
		case len(p.idx) == pageSize:
		case len(p.idx) <= fewInPage:
			dst = append(dst, p.idx...)
		default:
			var set restored
			for _, i := range p.idx {
				set[i/64] |= 1 << (i % 64)
			}
			for _, word := range set {
				dst = binary.BigEndian.AppendUint64(dst, word)
			}
		}
		at = key + 1
	}
	return b.appendRest(dst)
}

func (b *Book) appendRest(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b.retimed)))
	at, due := uint64(0), int64(0)
	for _, number := range slices.Sorted(maps.Keys(b.retimed)) {
		dst = binary.AppendUvarint(dst, number-at)
		dst = binary.AppendVarint(dst, b.retimed[number]-due)
		at, due = number+1, b.retimed[number]
	}
	all := b.cancelled.all()
	dst = binary.AppendUvarint(dst, uint64(len(all)))
	at = 0
	for _, number := range all {
		dst = binary.AppendVarint(dst, int64(number-at))
		at = number + 1
	}
	return dst
}

// Load makes a book of the state in a checkpoint. It is whole after Restore has seen the entries from the position
// from on, up to the checkpoint's, Apply those behind it, and Restored was called. An empty state is a new book.
func Load(state []byte) (b *Book, from mq.Position, err error) {
	b = New()
	if len(state) == 0 {
		return b, mq.Position{}, nil
	}
	r := mq.NewReader(state)
	if v := r.Byte(); v != stateVersion {
		r.Fail("version %d", v)
	}
	if b.next = r.Uvarint(); b.next > math.MaxInt64 {
		r.Fail("next number %d", b.next)
	}
	from = r.Position()
	b.readPages(r)
	b.readRest(r)
	if r.Err() == nil && r.Len() > 0 {
		r.Fail("%d bytes over", r.Len())
	}
	if r.Err() != nil {
		return nil, from, fmt.Errorf("%w: %w", ErrState, r.Err())
	}
	return b, from, nil
}

func (b *Book) readPages(r *mq.Reader) {
	at := uint64(0)
	b.restoring = map[uint64]*restored{}
	for range r.Count(2) {
		key := at + r.Uvarint()
		live := int(r.Byte()) + 1
		if r.Err() != nil {
			return
		}
		if key < at || key > math.MaxInt64/pageSize {
			r.Fail("page %d", key)
			return
		}
		set := &restored{}
		switch {
		case live == pageSize:
			*set = restored{math.MaxUint64, math.MaxUint64, math.MaxUint64, math.MaxUint64}
		case live <= fewInPage:
			for _, i := range r.Take(live) {
				set[i/64] |= 1 << (i % 64)
			}
		default:
			for i := range set {
				set[i] = r.Fixed64()
			}
		}
		n, top := 0, 0
		for i, word := range set {
			n += bits.OnesCount64(word)
			if word != 0 {
				top = i*64 + bits.Len64(word) - 1
			}
		}
		if n != live || key*pageSize+uint64(top) >= b.next {
			r.Fail("page %d has %d of %d", key, n, live)
			return
		}
		b.restoring[key] = set
		b.waiting += live
		at = key + 1
	}
}

func (b *Book) readRest(r *mq.Reader) {
	at, due := uint64(0), int64(0)
	for range r.Count(2) {
		number := at + r.Uvarint()
		due += r.Varint()
		set := b.restoring[number/pageSize]
		if r.Err() == nil && (number < at || outside(due) || set == nil || !set.has(uint8(number%pageSize))) {
			r.Fail("re-timed %d", number)
		}
		if r.Err() != nil {
			return
		}
		b.retimed[number] = due
		at = number + 1
	}
	at = 0
	for range r.Count(1) {
		number := at + uint64(r.Varint())
		if _, twice := b.cancelled.get(number); r.Err() == nil && (number >= b.next || twice) {
			r.Fail("cancelled %d", number)
		}
		if r.Err() != nil {
			return
		}
		b.cancelled.put(number, struct{}{})
		at = number + 1
	}
}
