package footer

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2/roaring64"

	"github.com/splashdam/splashdam/shared/mq"
)

// lanes is a bitmap of offsets for every lane but normal. A batch in which all is normal costs nothing.
//
// Form: per lane in order, normal left out: length (varint) | roaring64 form; nothing at all when all are empty.
// At most 2 bytes a message in random lanes, far less in runs.
type lanes struct {
	maps [mq.Lanes]*roaring64.Bitmap
	held int // messages in the maps
}

func (*lanes) id() SectionID { return sectionLanes }

func (l *lanes) add(_ *mq.Entry, first uint64, rec mq.Record) {
	switch rec.Kind {
	case mq.KindMessages:
		l.batch(first, rec.Body)
	case mq.KindReleased:
		if _, raw, _, _, err := mq.MessagesOf(rec); err == nil {
			l.batch(first, raw)
		}
	}
}

// batch notes the lanes of a batch whose messages have the offsets from first on.
func (l *lanes) batch(first uint64, body []byte) {
	if _, uses := mq.BatchShape(body); uses&mq.UsesLanes == 0 {
		return
	}
	b, err := mq.ParseBatch(body)
	if err != nil {
		return
	}
	_ = b.Each(nil, func(i int, m *mq.Message) bool {
		if m.Lane != mq.LaneNormal {
			if l.maps[m.Lane] == nil {
				l.maps[m.Lane] = roaring64.New()
			}
			l.maps[m.Lane].Add(first + uint64(i))
			l.held++
		}
		return true
	})
}

func (l *lanes) memory() int { return 2 * l.held }

func (l *lanes) append(b []byte) []byte {
	if l.held == 0 {
		return b
	}
	for lane, m := range l.maps {
		if mq.Lane(lane) == mq.LaneNormal {
			continue
		}
		var form []byte
		if m != nil {
			m.RunOptimize()
			form, _ = m.ToBytes() // into memory: it can't fail
		}
		b = mq.AppendBytes(b, form)
	}
	return b
}

func (l *lanes) reset() { *l = lanes{} }

// Lanes adds the offsets of the footer's messages to a bitmap per lane; into has a bitmap for every lane other than
// normal.
func (f *Footer) Lanes(into *[mq.Lanes]*roaring64.Bitmap) error {
	for _, p := range f.Parts {
		form, err := p.section(sectionLanes)
		if err != nil {
			return err
		}
		if len(form) == 0 {
			continue
		}
		r := mq.NewReader(form)
		for lane := range into {
			if mq.Lane(lane) == mq.LaneNormal {
				continue
			}
			body := r.Bytes()
			if len(body) == 0 {
				continue
			}
			m := roaring64.New()
			if err := m.UnmarshalBinary(body); err != nil {
				return fmt.Errorf("%w: lane %d: %w", ErrDamaged, lane, err)
			}
			into[lane].Or(m)
		}
		if r.Err() != nil {
			return fmt.Errorf("%w: lanes: %w", ErrDamaged, r.Err())
		}
	}
	return nil
}

// runAtMost is how many messages EachLane gives at a time.
const runAtMost = 4096

// EachLane calls f with stretches of neighbouring messages that are not in the normal lane, by ascending offset.
func (f *Footer) EachLane(each func(first uint64, lanes []mq.Lane)) error {
	var maps [mq.Lanes]*roaring64.Bitmap
	for i := range maps {
		maps[i] = roaring64.New()
	}
	if err := f.Lanes(&maps); err != nil {
		return err
	}
	var heads [mq.Lanes]roaring64.IntPeekable64
	for i, m := range maps {
		heads[i] = m.Iterator()
	}
	var run []mq.Lane
	first := uint64(0)
	for {
		lane, at := mq.Lane(0), uint64(0)
		found := false
		for i, h := range heads {
			if h.HasNext() && (!found || h.PeekNext() < at) {
				lane, at, found = mq.Lane(i), h.PeekNext(), true
			}
		}
		if len(run) > 0 && (!found || at != first+uint64(len(run)) || len(run) == runAtMost) {
			each(first, run)
			run = run[:0]
		}
		if !found {
			return nil
		}
		if len(run) == 0 {
			first = at
		}
		run = append(run, lane)
		heads[lane].Next()
	}
}
