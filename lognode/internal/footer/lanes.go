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

// offsetsAtMost is how many offsets EachLane gives at a time.
const offsetsAtMost = 1024

// EachLane calls f with the messages that are not in the normal lane: with offsets of one lane, in ascending order, and for
// each lane and part as often as it takes. The slice is used again.
func (f *Footer) EachLane(each func(l mq.Lane, offsets []uint64)) error {
	var buf [offsetsAtMost]uint64
	var values roaring64.ManyIntIterator64
	for _, p := range f.Parts {
		maps, err := p.laneMaps()
		if err != nil {
			return err
		}
		for lane, m := range maps {
			if m == nil {
				continue
			}
			values.Initialize(m)
			for n := values.NextMany(buf[:]); n > 0; n = values.NextMany(buf[:]) {
				each(mq.Lane(lane), buf[:n])
			}
		}
	}
	return nil
}

// laneMaps are the bitmaps of a part; nil for a lane without messages.
func (p *Part) laneMaps() (maps [mq.Lanes]*roaring64.Bitmap, err error) {
	form, err := p.section(sectionLanes)
	if err != nil || len(form) == 0 {
		return maps, err
	}
	r := mq.NewReader(form)
	for lane := range maps {
		if mq.Lane(lane) == mq.LaneNormal {
			continue
		}
		body := r.Bytes()
		if len(body) == 0 {
			continue
		}
		maps[lane] = roaring64.New()
		if err := maps[lane].UnmarshalBinary(body); err != nil {
			return maps, fmt.Errorf("%w: lane %d: %w", ErrDamaged, lane, err)
		}
	}
	if r.Err() != nil {
		return maps, fmt.Errorf("%w: lanes: %w", ErrDamaged, r.Err())
	}
	return maps, nil
}
