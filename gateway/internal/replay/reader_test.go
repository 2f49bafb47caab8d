package replay

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// drawLeaders makes up to four partitions whose batches share a stamp and whose stamps never go back.
func drawLeaders(t *rapid.T) *leaders {
	l := &leaders{first: map[uint32]uint64{}, logs: map[uint32][]stored{}, batch: rapid.IntRange(1, 4).Draw(t, "batch")}
	for n := range uint32(rapid.IntRange(1, 4).Draw(t, "partitions")) {
		l.first[n] = rapid.Uint64Range(0, 5).Draw(t, "first")
		stamp := int64(100)
		for i := range rapid.IntRange(0, 20).Draw(t, "messages") {
			if i%l.batch == 0 {
				stamp += int64(rapid.IntRange(0, 5).Draw(t, "step"))
			}
			l.logs[n] = append(l.logs[n], stored{stamp, fmt.Sprintf("%d/%d", n, l.first[n]+uint64(i))})
		}
	}
	return l
}

func drawBound(t *rapid.T, label string) frame.Place {
	switch rapid.IntRange(0, 3).Draw(t, label) {
	case 0:
		return frame.Place{}
	case 1:
		return frame.Place{Where: frame.Earliest}
	case 2:
		return frame.Place{Where: frame.Latest}
	}
	return frame.Place{Where: frame.AtTime, Value: rapid.Uint64Range(95, 160).Draw(t, label+" time")}
}

// wanted is the plain answer: filter all messages, sort them by (stamp, partition, offset).
func wanted(l *leaders, q Query) []string {
	type key struct {
		stamp int64
		n     uint32
		o     uint64
	}
	var all []key
	for n, log := range l.logs {
		low, high := l.first[n], l.first[n]+uint64(len(log))
		if q.From.Where != 0 {
			low = l.resolve(n, q.From)
		}
		if q.To.Where != 0 {
			high = l.resolve(n, q.To)
		}
		for o := low; o < high; o++ {
			all = append(all, key{log[o-l.first[n]].stamp, n, o})
		}
	}
	slices.SortFunc(all, func(a, b key) int {
		return slices.Compare([]int64{a.stamp, int64(a.n), int64(a.o)}, []int64{b.stamp, int64(b.n), int64(b.o)})
	})
	if q.Backward {
		slices.Reverse(all)
	}
	var out []string
	for _, k := range all {
		out = append(out, fmt.Sprintf("%d/%d", k.n, k.o))
	}
	return out
}

func TestPagesMergeToThePlainAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLeaders(t)
		q := Query{From: drawBound(t, "from"), To: drawBound(t, "to"), Backward: rapid.Bool().Draw(t, "backward"), All: true, Unpack: unpack}
		numbers := slices.Sorted(mapsKeys(l.first))
		want := wanted(l, q)
		r := New(q, numbers, l.fetch)
		var got []string
		for pages := 0; !r.Dry(); pages++ {
			if pages > 200 {
				t.Fatal("the reader does not come to an end")
			}
			limit := rapid.IntRange(1, 9).Draw(t, "limit")
			items, err := r.Page(t.Context(), limit, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			if len(items) < limit && !r.Dry() {
				t.Fatal("a short page before the end")
			}
			for _, it := range items {
				if name := fmt.Sprintf("%d/%d", it.ID.Partition.Number, it.Offset); string(it.Message.Value) != name || it.Message.Headers[0].Value != name {
					t.Fatalf("message at %s is %q %v", name, it.Message.Value, it.Message.Headers)
				}
				got = append(got, string(it.Message.Value))
			}
			if rapid.Bool().Draw(t, "resume") {
				if r, err = Resume(r.AppendState(nil), Query{Unpack: unpack}, numbers, l.fetch); err != nil {
					t.Fatal(err)
				}
			}
			if r.Over() {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got  %v\nwant %v", got, want)
		}
	})
}

func mapsKeys(m map[uint32]uint64) func(func(uint32) bool) {
	return func(yield func(uint32) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func values(items []Item) []string {
	var out []string
	for _, it := range items {
		out = append(out, string(it.Message.Value))
	}
	return out
}

func page(t *testing.T, r *Reader) []string {
	t.Helper()
	items, err := r.Page(context.Background(), 100, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return values(items)
}

func TestAgainSeesWhatCameMeanwhile(t *testing.T) {
	l := &leaders{first: map[uint32]uint64{0: 0, 1: 0}, logs: map[uint32][]stored{}, batch: 1}
	for _, start := range []frame.Where{0, frame.Earliest, frame.Latest} {
		l.logs = map[uint32][]stored{}
		r := New(Query{From: frame.Place{Where: start}, All: true, Unpack: unpack}, []uint32{0, 1}, l.fetch)
		if got := page(t, r); got != nil || !r.Dry() || r.Over() {
			t.Fatalf("%v, dry %v, over %v", got, r.Dry(), r.Over())
		}
		l.logs[1] = []stored{{5, "a"}}
		r.Again(r.Partitions())
		if got := page(t, r); !slices.Equal(got, []string{"a"}) {
			t.Errorf("from %d: %v", start, got)
		}
		l.logs[0] = []stored{{9, "b"}}
		state := r.AppendState(nil)
		r, err := Resume(state, Query{Unpack: unpack}, []uint32{0, 1, 2}, l.fetch)
		if err != nil {
			t.Fatal(err)
		}
		l.first[2], l.logs[2] = 0, []stored{{1, "new partition"}}
		if got := page(t, r); !slices.Equal(got, []string{"new partition", "b"}) {
			t.Errorf("from %d after the cursor: %v", start, got)
		}
		delete(l.first, 2)
	}
}

func TestUpToLatestDoesNotFollow(t *testing.T) {
	l := &leaders{first: map[uint32]uint64{0: 0}, logs: map[uint32][]stored{0: {{1, "a"}, {2, "b"}, {3, "c"}}}, batch: 1}
	r := New(Query{To: frame.Place{Where: frame.Latest}, Unpack: unpack}, []uint32{0}, l.fetch)
	items, err := r.Page(t.Context(), 2, 1<<20)
	if err != nil || len(items) != 2 || r.Over() {
		t.Fatal(items, err)
	}
	l.logs[0] = append(l.logs[0], stored{4, "d"})
	if got := page(t, r); !slices.Equal(got, []string{"c"}) || !r.Over() {
		t.Errorf("%v, over %v", got, r.Over())
	}
}

func TestEndsAreNamed(t *testing.T) {
	l := &leaders{first: map[uint32]uint64{0: 10}, logs: map[uint32][]stored{0: {{1, "a"}, {2, "b"}}}, batch: 1}
	for _, c := range []struct {
		from uint64
		code mqerr.Code
	}{{9, mqerr.OffsetExpired}, {0, mqerr.OffsetExpired}, {13, mqerr.OffsetOutOfRange}, {1 << 63, mqerr.OffsetOutOfRange}} {
		_, err := New(Query{From: at(c.from), Unpack: unpack}, []uint32{0}, l.fetch).Page(t.Context(), 1, 1)
		if !mqerr.Is(err, c.code) {
			t.Errorf("from %d: %v", c.from, err)
		}
	}
	r := New(Query{From: at(12), Unpack: unpack}, []uint32{0}, l.fetch)
	if got := page(t, r); got != nil || !r.Dry() || r.Over() {
		t.Errorf("at the end: %v", got)
	}
}

// The bytes of a message are all that its sender chose: these have a header of five and a value of four.
func TestPageStopsByBytes(t *testing.T) {
	l := &leaders{first: map[uint32]uint64{0: 0}, logs: map[uint32][]stored{0: {{1, "aaaa"}, {2, "bbbb"}, {3, "cccc"}}}, batch: 1}
	for most, want := range map[int][]string{1: {"aaaa"}, 9: {"aaaa"}, 10: {"aaaa", "bbbb"}, 18: {"aaaa", "bbbb"}, 19: {"aaaa", "bbbb", "cccc"}} {
		items, err := New(Query{Unpack: unpack}, []uint32{0}, l.fetch).Page(t.Context(), 10, most)
		if err != nil || !slices.Equal(values(items), want) {
			t.Errorf("%d bytes: %v, %v", most, values(items), err)
		}
	}
}

func TestParsePlace(t *testing.T) {
	for s, want := range map[string]frame.Place{
		"0":                         {Where: frame.AtOffset},
		"18446744073709551615":      {Where: frame.AtOffset, Value: 1<<64 - 1},
		"earliest":                  {Where: frame.Earliest},
		"latest":                    {Where: frame.Latest},
		"1970-01-01T00:00:01Z":      {Where: frame.AtTime, Value: 1e9},
		"1970-01-01T01:00:00+01:00": {Where: frame.AtTime},
		"1969-12-31T23:59:59Z":      {Where: frame.AtTime},
		"9999-01-01T00:00:00Z":      {Where: frame.AtTime, Value: 1<<63 - 1},
	} {
		if got, err := ParsePlace(s); err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "-1", "1.5", "18446744073709551616", "yesterday", "2026-01-01", "LATEST", " 1", "0x10"} {
		if got, err := ParsePlace(s); err == nil {
			t.Errorf("%q is %v", s, got)
		}
	}
}

func FuzzResume(f *testing.F) {
	l := &leaders{first: map[uint32]uint64{0: 3, 1: 0}, logs: map[uint32][]stored{0: {{1, "a"}}, 1: {{2, "b"}}}, batch: 1}
	r := New(Query{All: true, Unpack: unpack}, []uint32{0, 1}, l.fetch)
	f.Add(r.AppendState(nil))
	_, _ = r.Page(f.Context(), 1, 1)
	f.Add(r.AppendState(nil))
	f.Add([]byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Resume(b, Query{Unpack: unpack}, []uint32{0, 1}, l.fetch)
		if err == nil && len(r.sides) < 64 {
			_, _ = r.Page(t.Context(), 10, 1<<20)
		}
	})
}
