package mq

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A record of schedules reads back as it was written, whatever the numbers (dense, as of a publish, or any, as of a
// release) and due times.
func TestScheduleBatchReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 50).Draw(t, "n")
		var b BatchBuilder
		want := make([]Schedule, n)
		for i := range want {
			want[i] = Schedule{Number: rapid.Uint64Range(0, 1<<62).Draw(t, "number"), Due: rapid.Int64Range(-1<<60, 1<<60).Draw(t, "due")}
			b.Add(&Message{Value: []byte(strings.Repeat("x", i)), Lane: LaneNormal})
		}
		raw := b.AppendTo(nil, "p", "g", CodecNone, nil)
		var got ScheduleBatch
		if err := got.Read(AppendScheduleBatch(nil, want, raw)); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Schedules, want) || string(got.Raw) != string(raw) || got.Batch.Count != n {
			t.Fatalf("%+v read back as %+v", want, got)
		}
	})
}

func TestScheduleBatchIsBounded(t *testing.T) {
	var b BatchBuilder
	b.Add(&Message{Value: []byte("v"), Lane: LaneNormal})
	raw := b.AppendTo(nil, "", "", CodecNone, nil)
	for name, body := range map[string][]byte{
		"empty":          nil,
		"no batch":       AppendScheduleBatch(nil, []Schedule{{1, 1}}, nil),
		"too few":        AppendScheduleBatch(nil, nil, raw),
		"too many":       AppendScheduleBatch(nil, []Schedule{{1, 1}, {2, 2}}, raw),
		"a late time":    AppendScheduleBatch(nil, []Schedule{{1, maxScheduleTime + 1}}, raw),
		"a large number": AppendScheduleBatch(nil, []Schedule{{1 << 63, 1}}, raw),
		"a forged count": append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, raw...),
	} {
		var got ScheduleBatch
		if err := got.Read(body); err == nil {
			t.Errorf("%s: read as %+v", name, got)
		}
	}
}

func FuzzScheduleBatch(f *testing.F) {
	var b BatchBuilder
	b.Add(&Message{Value: []byte("v"), Lane: LaneNormal})
	f.Add(AppendScheduleBatch(nil, []Schedule{{7, 1 << 40}}, b.AppendTo(nil, "p", "g", CodecNone, nil)))
	f.Fuzz(func(t *testing.T, body []byte) {
		var s ScheduleBatch
		if s.Read(body) != nil {
			return
		}
		var again ScheduleBatch
		if err := again.Read(AppendScheduleBatch(nil, s.Schedules, s.Raw)); err != nil || len(again.Schedules) != len(s.Schedules) {
			t.Fatalf("%+v does not read back: %v", s, err)
		}
	})
}
