package bus

import (
	"reflect"
	"testing"
)

func TestWakeCodec(t *testing.T) {
	pairs := []Pair{{0, 1}, {1023, 1 << 40}, {7, 0}, {1<<32 - 1, 7}}
	got, err := parseWake(appendWake(nil, pairs))
	if err != nil || !reflect.DeepEqual(got, pairs) {
		t.Fatalf("got %v, %v; want %v", got, err, pairs)
	}
	for name, bad := range map[string][]byte{
		"empty": {}, "other version": {2, 0, 1}, "half a pair": {1, 0},
		"partition beyond 32 bits": {1, 0x80, 0x80, 0x80, 0x80, 0x10, 1}, "endless varint": {1, 0xff, 0xff},
	} {
		if got, err := parseWake(bad); err == nil {
			t.Errorf("%s: parsed as %v", name, got)
		}
	}
	long := make([]Pair, maxPairs+1)
	for i := range long {
		long[i] = Pair{uint32(i), 1}
	}
	if _, err := parseWake(appendWake(nil, long)); err == nil {
		t.Error("more pairs than allowed are taken")
	}
}

func FuzzWake(f *testing.F) {
	f.Add([]byte{1})
	f.Add(appendWake(nil, []Pair{{1, 2}, {3, 4}}))
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		pairs, err := parseWake(b)
		if err != nil {
			return
		}
		again, err := parseWake(appendWake(nil, pairs))
		if err != nil || len(again) != len(pairs) {
			t.Fatalf("%v does not survive: %v, %v", pairs, again, err)
		}
	})
}
