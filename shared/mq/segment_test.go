package mq

import "testing"

func TestEndedIsTheHighestTailOfEnoughAnswers(t *testing.T) {
	s := Segment{Base: Position{Offset: 10}, Quorum: 2, Replicas: []Replica{{Store: "a"}, {Store: "b"}, {Store: "c"}}}
	at := func(o uint64) Position { return Position{Offset: o} }
	for _, c := range []struct {
		name  string
		tails map[StoreID]Position
		end   Position
		ok    bool
	}{
		{"nobody", nil, at(10), false},
		{"one of three", map[StoreID]Position{"a": at(12)}, at(12), false},
		{"two of three", map[StoreID]Position{"a": at(12), "c": at(15)}, at(15), true},
		{"a stranger does not count", map[StoreID]Position{"a": at(12), "x": at(99)}, at(12), false},
		{"below the base is no tail", map[StoreID]Position{"a": at(12), "b": at(9)}, at(12), false},
		{"all empty", map[StoreID]Position{"a": at(10), "b": at(10), "c": at(10)}, at(10), true},
	} {
		if end, ok := s.Ended(c.tails); end != c.end || ok != c.ok {
			t.Errorf("%s: %s %v, want %s %v", c.name, end, ok, c.end, c.ok)
		}
	}
}
