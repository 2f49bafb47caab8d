package footer

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/lognode/internal/dedup"
)

// What is kept of a footer says what the footer says, needs nothing that it was read from, and does not make up the rest.
func TestKeptSaysWhatTheFooterSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := anyJournal(t)
		f := j.build()
		since := j.now - rapid.Int64Range(0, 300).Draw(t, "window")
		kept, bytes, err := f.Keep(since)
		if err != nil {
			t.Fatal(err)
		}
		all := keptPart
		for _, p := range f.Parts {
			all += int(p.Size()) + keptPart
			p.r = nil
		}
		if kept.To != f.To || kept.Segment != f.Segment || len(kept.Parts) != len(f.Parts) || bytes < keptPart || bytes > all {
			t.Fatalf("kept %+v of %+v in %d bytes", kept, f, bytes)
		}
		j.wantLanes(kept)
		var keys [][]dedup.Entry
		take := func(list dedup.Form, own int) bool {
			keys = append(keys, list.AppendTo(nil))
			return own == list.Len()
		}
		if err := kept.Keys(since, take); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(keys)
		got := slices.Concat(keys...)
		if n := len(j.keys) - len(got); n < 0 || !slices.Equal(got, j.keys[n:]) || slices.ContainsFunc(j.keys[:n], func(e dedup.Entry) bool { return e.Stamp >= since }) {
			t.Fatalf("keys since %d: %v, want the end of %v", since, got, j.keys)
		}
		left := slices.ContainsFunc(f.Parts, func(p *Part) bool {
			s, err := p.find(sectionKeys)
			return err == nil && p.Last < since && s.length > 0
		})
		if err := kept.Keys(0, take); left != errors.Is(err, ErrNotKept) || !left && err != nil {
			t.Fatalf("keys that were left out (%v): %v", left, err)
		}
		if _, err := kept.Naming(100); !errors.Is(err, ErrNotKept) {
			t.Fatalf("an index that was not kept: %v", err)
		}
		if _, err := kept.Scheduled(); !errors.Is(err, ErrNotKept) {
			t.Fatalf("schedules that were not kept: %v", err)
		}
	})
}
