package sim

import (
	"maps"
	"math"
	"slices"

	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// try is one consumer's word about one hand-over, from when it was first sent.
type try struct {
	sent    int64
	outcome lognode.Outcome
	refused bool // it was answered that it does not count
}

// trying is a settle on its way: whether or not it is answered, it may count from here on.
func (c *checker) trying(g mq.GroupID, m lognode.Delivered, o lognode.Outcome) *try {
	key := groupPlace{g, placeOf(m)}
	t := &try{sent: c.s.now, outcome: o}
	c.tries[key] = append(c.tries[key], t)
	if o == lognode.Release {
		c.released[released{key, fenceOf(m)}] = true
	}
	return t
}

// answered checks the order within one answer: the most urgent lane first, within a lane by offset.
func (c *checker) answered(g mq.GroupID, list []lognode.Delivered) {
	for i := 1; i < len(list); i++ {
		a, b := &list[i-1], &list[i]
		x, y := c.traits[string(a.Value)].lane, c.traits[string(b.Value)].lane
		if x > y || x == y && a.Receipt.Offset >= b.Receipt.Offset {
			c.s.fail("group %d of partition %d: offset %d (lane %v) after offset %d (lane %v) in one answer", g, a.Receipt.Partition.Number,
				b.Receipt.Offset, y, a.Receipt.Offset, x)
		}
	}
}

// dead are the dead letters of a group, as it lists them.
type dead map[uint64]lognode.HeldMessage

// ordered checks a group that orders by key, by what its consumers said and saw: no message was given out before those of
// its key with lower offsets were settled, and the fences of a key grow. That a message is dead because its attempts
// are used up is what the group says; consumers may have seen the last of them fail or nothing.
func (c *checker) ordered(g mq.GroupID, p mq.PartitionID, letters dead) {
	byKey := map[string][]uint64{}
	for at, v := range c.values {
		if key := c.traits[v].key; at.partition == p && key != "" && !c.s.excused(at) {
			byKey[key] = append(byKey[key], at.offset)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		offsets := byKey[key]
		slices.Sort(offsets)
		var before uint64 // the one of the key that was settled last, of those before
		since, last := int64(0), fence{}
		for _, off := range offsets {
			at := groupPlace{g, place{p, off}}
			for _, h := range c.hands[at] {
				if h.decided < since || h.fence.less(last) {
					c.s.fail("order by key: offset %d of partition %d, key %s, was given out in group %d at %.3fs (fence %v, attempt %d) though those of that key before it were settled at %.3fs at the earliest (offset %d) and given out with fences up to %v",
						off, p.Number, key, g, float64(h.decided)/1e9, h.fence, h.attempt, float64(since)/1e9, before, last)
				}
			}
			for _, h := range c.hands[at] {
				if last.less(h.fence) {
					last = h.fence
				}
			}
			if t := c.settledAt(at, letters); t > since {
				before, since = off, t
			}
		}
	}
}

// settledAt is the first moment at which a message may have been settled for good, or math.MaxInt64.
func (c *checker) settledAt(at groupPlace, letters dead) int64 {
	if d, ok := letters[at.offset]; ok && d.Attempt >= c.limits[at.group] {
		return 0
	}
	first := int64(math.MaxInt64)
	if c.mayExpire(c.values[at.place]) {
		if first = 0; c.s.trueClocks() {
			t := c.traits[c.values[at.place]]
			first = t.sent + t.ttl - slack
		}
	}
	for _, t := range c.tries[at] {
		if t.outcome == lognode.Ack && !t.refused || t.outcome == lognode.Reject {
			first = min(first, t.sent)
		}
	}
	return first
}

func placeOf(m lognode.Delivered) place { return place{m.Receipt.Partition, m.Receipt.Offset} }

func fenceOf(m lognode.Delivered) fence { return fence{m.Receipt.Segment, m.Receipt.Counter} }
