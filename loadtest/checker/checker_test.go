package checker

import (
	"reflect"
	"testing"
)

// history is a run written as a script: send makes message n (from 1), and so on.
type history struct {
	*Checker
	t      *testing.T
	values map[uint32][]byte
}

func begin(t *testing.T, o Options) *history {
	o.Run = 7
	return &history{New(o), t, map[uint32][]byte{}}
}

func (h *history) send(key int) uint32 {
	h.t.Helper()
	value, id, ok := h.Next(nil, key, 60)
	if !ok {
		h.t.Fatal("no more messages")
	}
	h.values[id] = value
	return id
}

func (h *history) deliver(consumer int, id, partition uint32, offset uint64, attempt uint32, fence uint64) {
	h.Delivered(Delivery{Consumer: consumer, Partition: partition, Offset: offset, Attempt: attempt, Fence: fence, Value: h.values[id]})
}

func TestHistories(t *testing.T) {
	tests := []struct {
		name string
		o    Options
		run  func(h *history)
		want Report // Examples aside
	}{
		{"all is well", Options{Fresh: true}, func(h *history) {
			a, b := h.send(1), h.send(1)
			h.Stored(a, 2, 10)
			h.Stored(b, 2, 11)
			h.deliver(0, a, 2, 10, 1, 1)
			h.deliver(0, b, 2, 11, 1, 2)
			h.Acked(2, 10, 1)
			h.Acked(2, 11, 2)
		}, Report{Sent: 2, Stored: 2, Delivered: 2, Acked: 2}},
		{"delivered before the publish is answered", Options{Fresh: true}, func(h *history) {
			a := h.send(NoKey)
			h.deliver(0, a, 0, 0, 1, 1)
			h.Acked(0, 0, 1)
			h.Stored(a, 0, 0)
		}, Report{Sent: 1, Stored: 1, Delivered: 1, Acked: 1}},
		{"lost", Options{}, func(h *history) {
			h.Stored(h.send(NoKey), 0, 0)
		}, Report{Sent: 1, Stored: 1, Lost: 1}},
		{"not acknowledged", Options{}, func(h *history) {
			a := h.send(NoKey)
			h.Stored(a, 0, 0)
			h.deliver(0, a, 0, 0, 1, 1)
		}, Report{Sent: 1, Stored: 1, Delivered: 1, Unsettled: 1}},
		{"redelivered after a lease ran out", Options{}, func(h *history) {
			a := h.send(NoKey)
			h.Stored(a, 0, 0)
			h.deliver(0, a, 0, 0, 1, 1)
			h.deliver(1, a, 0, 0, 2, 2)
			h.Acked(0, 0, 2)
		}, Report{Sent: 1, Stored: 1, Delivered: 2, Redelivered: 1, Acked: 1}},
		{"an older delivery that is filed late has not come back", Options{}, func(h *history) {
			a := h.send(NoKey)
			h.Stored(a, 0, 0)
			h.deliver(1, a, 0, 0, 2, 2)
			h.Acked(0, 0, 2)
			h.deliver(0, a, 0, 0, 1, 1)
		}, Report{Sent: 1, Stored: 1, Delivered: 2, Redelivered: 1, Acked: 1}},
		{"came back after an acknowledgement", Options{Disturbed: true}, func(h *history) {
			a := h.send(NoKey)
			h.Stored(a, 0, 0)
			h.deliver(0, a, 0, 0, 1, 1)
			h.Acked(0, 0, 1)
			h.deliver(0, a, 0, 0, 2, 2)
		}, Report{Sent: 1, Stored: 1, Delivered: 2, Redelivered: 1, Acked: 1, CameBack: 1, Disturbed: true}},
		{"an unknown outcome that was stored", Options{Fresh: true}, func(h *history) {
			a := h.send(NoKey)
			h.Unknown(a)
			h.deliver(0, a, 0, 0, 1, 1)
			h.Acked(0, 0, 1)
		}, Report{Sent: 1, Unknown: 1, Delivered: 1, Acked: 1}},
		{"an unknown outcome that was not stored", Options{}, func(h *history) {
			h.Unknown(h.send(NoKey))
		}, Report{Sent: 1, Unknown: 1}},
		{"stored twice after an unknown outcome", Options{}, func(h *history) {
			a := h.send(NoKey)
			h.Unknown(a)
			h.Stored(a, 0, 1)
			h.deliver(0, a, 0, 0, 1, 1)
			h.deliver(0, a, 0, 1, 1, 2)
			h.Acked(0, 0, 1)
			h.Acked(0, 1, 2)
		}, Report{Sent: 1, Stored: 1, Unknown: 1, Delivered: 2, Acked: 2, Copies: 1}},
		{"stored twice without a reason", Options{}, func(h *history) {
			a := h.send(NoKey)
			h.Stored(a, 0, 1)
			h.deliver(0, a, 0, 0, 1, 1)
			h.deliver(0, a, 0, 1, 1, 2)
			h.Acked(0, 0, 1)
			h.Acked(0, 1, 2)
		}, Report{Sent: 1, Stored: 1, Delivered: 2, Acked: 2, Phantom: 1}},
		{"refused, and there", Options{}, func(h *history) {
			a := h.send(NoKey)
			h.Refused(a)
			h.deliver(0, a, 0, 0, 1, 1)
		}, Report{Sent: 1, Refused: 1, Delivered: 1, Phantom: 1}},
		{"refused, sent again, stored", Options{}, func(h *history) {
			a := h.send(NoKey)
			h.Refused(a)
			h.Stored(a, 0, 0)
			h.deliver(0, a, 0, 0, 1, 1)
			h.Acked(0, 0, 1)
		}, Report{Sent: 1, Refused: 1, Stored: 1, Delivered: 1, Acked: 1}},
		{"never sent", Options{}, func(h *history) {
			value, _ := appendValue(nil, 7, 99, 60)
			h.Delivered(Delivery{Value: value, Attempt: 1})
		}, Report{Phantom: 1}},
		{"of another run, in a topic of its own", Options{Fresh: true}, func(h *history) {
			h.Delivered(Delivery{Value: []byte("hello"), Attempt: 1})
		}, Report{Foreign: 1, Phantom: 1}},
		{"of another run, in a shared topic", Options{}, func(h *history) {
			value, _ := appendValue(nil, 8, 1, 60)
			h.Delivered(Delivery{Value: value, Attempt: 1})
		}, Report{Foreign: 1}},
		{"damaged", Options{}, func(h *history) {
			a := h.send(NoKey)
			h.Stored(a, 0, 0)
			h.values[a][50] ^= 1
			h.deliver(0, a, 0, 0, 1, 1)
			h.Acked(0, 0, 1)
		}, Report{Sent: 1, Stored: 1, Delivered: 1, Acked: 1, Damaged: 1}},
		{"two values, both by publish", Options{}, func(h *history) {
			a, b := h.send(NoKey), h.send(NoKey)
			h.Stored(a, 0, 5)
			h.Stored(b, 0, 5)
			h.deliver(0, a, 0, 5, 1, 1)
			h.Acked(0, 5, 1)
		}, Report{Sent: 2, Stored: 1, Delivered: 1, Acked: 1, TwoValues: 1}},
		{"two values, one by delivery", Options{}, func(h *history) {
			a, b := h.send(NoKey), h.send(NoKey)
			h.Stored(a, 0, 5)
			h.Unknown(b)
			h.deliver(0, b, 0, 5, 1, 1)
			h.Acked(0, 5, 1)
		}, Report{Sent: 2, Stored: 1, Unknown: 1, Delivered: 1, Acked: 1, TwoValues: 1}},
		{"a first delivery twice", Options{}, firstTwice,
			Report{Sent: 1, Stored: 1, Delivered: 2, Redelivered: 1, Acked: 1, FirstTwice: 1}},
		{"a first delivery twice, with kills", Options{Disturbed: true}, firstTwice,
			Report{Sent: 1, Stored: 1, Delivered: 2, Redelivered: 1, Acked: 1, FirstTwice: 1, Disturbed: true}},
		{"a key's message overtaken", Options{}, func(h *history) { twoOfAKey(h, 0, 0) },
			Report{Sent: 2, Stored: 2, Delivered: 2, Acked: 2, Overtaken: 1}},
		{"two consumers have no order", Options{}, func(h *history) { twoOfAKey(h, 0, 1) },
			Report{Sent: 2, Stored: 2, Delivered: 2, Acked: 2}},
		{"a key stored out of order", Options{}, func(h *history) {
			a, b := h.send(3), h.send(3)
			storedAndDone(h, b, 0, 0)
			storedAndDone(h, a, 0, 1)
		}, Report{Sent: 2, Stored: 2, Delivered: 2, Acked: 2, OutOfOrder: 1}},
		{"a key in two partitions", Options{}, func(h *history) {
			storedAndDone(h, h.send(3), 0, 0)
			storedAndDone(h, h.send(3), 1, 1)
		}, Report{Sent: 2, Stored: 2, Delivered: 2, Acked: 2, KeyMoved: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := begin(t, tt.o)
			tt.run(h)
			got := h.Finish()
			broken := got.Lost + got.Phantom + got.Damaged + got.TwoValues + got.CameBack + got.KeyMoved + got.OutOfOrder
			if !tt.o.Disturbed {
				broken += got.FirstTwice + got.Overtaken
			}
			if got.Violations() != broken {
				t.Errorf("%d violations of %+v", got.Violations(), got)
			}
			if (got.Violations() > 0) && len(got.Examples) == 0 {
				t.Error("no example says what is wrong")
			}
			got.Examples = nil
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got\n  %+v\nwant\n  %+v", got, tt.want)
			}
		})
	}
}

func firstTwice(h *history) {
	a := h.send(NoKey)
	h.Stored(a, 0, 0)
	h.deliver(0, a, 0, 0, 1, 1)
	h.deliver(1, a, 0, 0, 1, 2)
	h.Acked(0, 0, 2)
}

// twoOfAKey delivers the second message of a key first.
func twoOfAKey(h *history, first, second int) {
	a, b := h.send(3), h.send(3)
	h.Stored(a, 0, 0)
	h.Stored(b, 0, 1)
	h.deliver(first, b, 0, 1, 1, 1)
	h.deliver(second, a, 0, 0, 1, 2)
	h.Acked(0, 1, 1)
	h.Acked(0, 0, 2)
}

func storedAndDone(h *history, id, partition uint32, offset uint64) {
	h.Stored(id, partition, offset)
	h.deliver(0, id, partition, offset, 1, offset+1)
	h.Acked(partition, offset, offset+1)
}

func TestUnackedCounts(t *testing.T) {
	h := begin(t, Options{})
	a, b := h.send(NoKey), h.send(NoKey)
	h.Stored(a, 0, 0)
	h.Stored(b, 0, 1)
	h.Acked(0, 0, 1)
	h.Acked(0, 0, 1)
	if h.Unacked() != 1 {
		t.Errorf("%d are not acknowledged, want 1", h.Unacked())
	}
}

func TestBounds(t *testing.T) {
	c := New(Options{MaxMessages: 1, MaxKeys: 2})
	if _, _, ok := c.Next(nil, 2, 60); ok {
		t.Error("a key beyond MaxKeys is taken")
	}
	if _, _, ok := c.Next(nil, 1, 60); !ok {
		t.Error("the first message is refused")
	}
	if _, _, ok := c.Next(nil, 1, 60); ok {
		t.Error("a message beyond MaxMessages is taken")
	}
}

func TestValuesNameThemselves(t *testing.T) {
	for _, size := range []int{0, MinSize, 100, 1000} {
		value, _ := appendValue([]byte("before"), 0xfedcba98, 0x89abcdef, size)
		value = value[len("before"):]
		if len(value) != max(size, MinSize) {
			t.Errorf("size %d: %d bytes", size, len(value))
		}
		id, ours, whole := parseValue(value, 0xfedcba98)
		if id != 0x89abcdef || !ours || !whole {
			t.Errorf("size %d: %x, %v, %v", size, id, ours, whole)
		}
		for i := range value {
			value[i] ^= 1
			if _, ours, whole := parseValue(value, 0xfedcba98); ours && whole {
				t.Errorf("size %d: a change at %d is not seen", size, i)
			}
			value[i] ^= 1
		}
	}
}

func TestParseFence(t *testing.T) {
	low, err := ParseFence("0000000000000002" + "00000000000000ff")
	if err != nil || low != 2<<40|255 {
		t.Errorf("got %x, %v", low, err)
	}
	high, err := ParseFence("0000000000000003" + "0000000000000001")
	if err != nil || high <= low {
		t.Errorf("a fence of a later segment is not greater: %x, %v", high, err)
	}
	for _, bad := range []string{"", "1", "000000000000000g" + "0000000000000001", "1000000000000000" + "0000000000000001"} {
		if _, err := ParseFence(bad); err == nil {
			t.Errorf("fence %q is taken", bad)
		}
	}
}

func FuzzParseValue(f *testing.F) {
	value, _ := appendValue(nil, 7, 1, 60)
	f.Add(value)
	f.Add([]byte("sd1"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := New(Options{Run: 7, MaxMessages: 1})
		c.Delivered(Delivery{Value: b, Attempt: 1})
		if r := c.Finish(); r.Delivered != 0 {
			t.Error("a value that was not sent counts as delivered")
		}
	})
}
