package dedup

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// Form is a list of keys as Append wrote it, which was looked through once. A table is made of it without a list in between.
type Form struct {
	keys        cursor
	first, last int64 // stamps
	ascending   bool
}

// ReadForm looks a form through. The bytes must not change while the Form is in use. own is how many of its keys have a stamp
// of since or later.
func ReadForm(b []byte, since int64) (f Form, own int, err error) {
	c, err := begin(b)
	if err != nil {
		return Form{}, 0, err
	}
	f = Form{keys: c, first: math.MaxInt64, last: math.MinInt64, ascending: true}
	for c.next() != nil {
		if f.last == math.MinInt64 {
			f.first = c.stamp
		}
		f.ascending = f.ascending && c.stamp >= f.last
		f.last = c.stamp
		if c.stamp >= since {
			own++
		}
	}
	return f, own, c.end()
}

// Len is how many keys there are.
func (f *Form) Len() int { return f.keys.left }

// AppendTo appends the keys.
func (f *Form) AppendTo(list []Entry) []Entry {
	c := f.keys
	return c.appendTo(list)
}

// Build makes the table of several lists of keys, those of footers: the newest list first, in each the oldest key first. Of
// two with the same key the later one counts. Keys that were carried forward are older than what lies before them in
// the journal; only then the keys need sorting.
func Build(forms []Form) *Table {
	count, last, ascending := 0, int64(math.MinInt64), true
	for i := len(forms) - 1; i >= 0; i-- {
		f := &forms[i]
		if f.Len() == 0 {
			continue
		}
		count += f.Len()
		ascending = ascending && f.ascending && f.first >= last
		last = f.last
	}
	if !ascending {
		return buildSorted(forms, count)
	}
	t := &Table{}
	t.reserve(min(count, MaxKeys))
	skip := max(0, count-MaxKeys)
	for i := len(forms) - 1; i >= 0; i-- {
		skip = t.take(forms[i].keys, skip, last)
	}
	t.point()
	return t
}

// buildSorted is Build where keys do not come in the order of their stamps.
func buildSorted(forms []Form, count int) *Table {
	all := make([]Entry, 0, count)
	for i := len(forms) - 1; i >= 0; i-- {
		all = forms[i].AppendTo(all)
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Compare(a.Stamp, b.Stamp) })
	t := &Table{}
	t.reserve(min(count, MaxKeys))
	for _, e := range all[max(0, count-MaxKeys):] {
		t.Add(e)
	}
	return t
}

// take puts keys that are newer than those in the ring behind them, but for the first skip and those that are out of the window
// at now. There is room, and the index does not point at them yet. It returns how many are still to be skipped.
func (t *Table) take(c cursor, skip int, now int64) int {
	for at := c.next(); at != nil; at = c.next() {
		if skip > 0 {
			skip--
			continue
		}
		if now-c.stamp >= int64(Window) {
			continue
		}
		if n := len(t.runs); n == 0 || t.runs[n-1].stamp != c.stamp {
			t.runs = append(t.runs, run{t.next, c.stamp})
		}
		s := &t.ring[t.next&uint64(len(t.ring)-1)]
		s.key, s.content, s.number = Key(at), binary.BigEndian.Uint64(at[16:]), c.number>>1
		if c.number&1 != 0 {
			s.number |= scheduledBit
		}
		t.next++
	}
	return skip
}

// glance is how many keys point looks up side by side.
const glance = 16

// point makes the index, which is empty, of all keys in the ring. A place in the index is as far from the processor as memory
// is: those of several keys are asked for before the first one is needed, so that they come at once.
func (t *Table) point() {
	var homes, seen [glance]uint32
	mask := uint64(len(t.ring) - 1)
	for n := t.front; n < t.next; n += glance {
		some := min(glance, t.next-n)
		for i := range some {
			homes[i] = t.home(&t.ring[(n+i)&mask].key)
			seen[i] = t.index[homes[i]]
		}
		for i := range some {
			at := uint32((n + i) & mask)
			if seen[i] == 0 && t.index[homes[i]] == 0 {
				t.index[homes[i]] = tagOf(&t.ring[at].key) | at + 1
			} else {
				t.put(at)
			}
		}
	}
}
