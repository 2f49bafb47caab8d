package footer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

// Every entry with a message that waits is in a stretch that the footer names; a stretch is a block, and one without such an
// entry is not named. The oracle cuts the same entries into blocks by itself.
func TestScheduledNamesTheBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, f := NewBuilder(segmentID, mq.Position{}), New(segmentID, mq.Position{}, nil)
		at, waits := mq.Position{}, map[mq.Position]bool{}
		var want []mq.Position // the blocks with a scheduled message, by their first entry
		block, bytes := mq.Position{}, blockBytes
		for range rapid.IntRange(1, 60).Draw(t, "entries") {
			e := mq.Entry{Segment: segmentID, At: at, Stamp: 1, Records: mq.AppendRecord(nil, mq.KindCancelled, nil)}
			if rapid.IntRange(0, 5).Draw(t, "what") == 0 {
				kind := rapid.SampledFrom([]mq.Kind{mq.KindScheduled, mq.KindCarried}).Draw(t, "kind")
				e.Records = mq.AppendRecord(e.Records, kind, nil)
				waits[at] = true
			}
			size := rapid.SampledFrom([]int{100, blockBytes / 2, blockBytes}).Draw(t, "size")
			if bytes >= blockBytes {
				block, bytes = at, 0
			}
			bytes += size
			if waits[at] && !slices.Contains(want, block) {
				want = append(want, block)
			}
			if err := b.Add(&e, size); err != nil {
				t.Fatal(err)
			}
			at = e.Next()
			if rapid.IntRange(0, 9).Draw(t, "a part ends") == 0 {
				f.TakeBytes(b.Next())
				bytes = blockBytes
			}
		}
		if part := b.Next(); part != nil {
			f.TakeBytes(part)
		}
		spans, err := f.Scheduled()
		if err != nil {
			t.Fatal(err)
		}
		for at := range waits {
			if !slices.ContainsFunc(spans, func(s Span) bool { return !at.Before(s.From) && at.Before(s.To) }) {
				t.Fatalf("%s is in none of %v", at, spans)
			}
		}
		for _, s := range spans { // neighbours may be one
			if !slices.Contains(want, s.From) {
				t.Fatalf("%v begins where no block with a schedule does: %v", s, want)
			}
		}
		if len(spans) > len(want) {
			t.Fatalf("%v for %v", spans, want)
		}
	})
}
