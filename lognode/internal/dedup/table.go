// Package dedup tells a publish that was sent again from a new one: it holds the idempotency keys of one partition that
// are still within the window, with where their messages are.
//
// Goal. A publish with a key that is in the window stores nothing and is answered with the first one's place. The table
// is a function of the committed journal: keys travel in the batch index, a leader adds them as it gives offsets, and
// whoever loads the journal adds the same ones. So nothing is written for it but what footers derive.
//
// Window: 10 minutes of the journal's stamps or the last million keys, whichever is shorter.
//
// Memory: a ring of 32 bytes a key in the order of their stamps, and an open-addressed index of 4 bytes a place that is
// at most half full: 40 to 44 bytes a key at a full million, nothing for a partition that has no keys. Expiry takes
// keys from the ring's front; a place in the index that is freed is closed by moving back those behind it, so
// there are no tombstones.
//
// Rejected: a Go map (over 100 bytes a key, and the collector walks it); a filter in front of the journal (a false
// positive would cost a read for a publish that is new).
package dedup

import (
	"encoding/binary"
	"sort"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// MaxKeys is the most keys that a partition's window holds; the oldest makes place for a new one.
	MaxKeys = mq.IdempotencyKeys
	// Window is how long a key counts.
	Window = time.Duration(mq.IdempotencyWindow)
	// firstRing is the capacity that a table begins with; it doubles.
	firstRing = 1 << 10
)

// Key is the 128-bit hash of an idempotency key.
type Key = [16]byte

// Entry is one key and the message that it came with.
type Entry struct {
	Key     Key
	Content uint64 // see mq.Message.Content
	// Number is the message's offset, or its schedule number if Scheduled.
	Number    uint64
	Scheduled bool
	Stamp     int64 // of the journal, Unix nanoseconds
}

// slot is an entry in the ring; the top bit of number says that it is a schedule's.
type slot struct {
	key     Key
	content uint64
	number  uint64
}

const scheduledBit = 1 << 63

// run is a stretch of slots with one stamp, from a sequence number on.
type run struct {
	first uint64
	stamp int64
}

// Table holds the keys in the window. It belongs to one goroutine; the zero value is ready and holds MaxKeys.
type Table struct {
	most  int    // 0: MaxKeys
	ring  []slot // a power of two long; slot of sequence number n at n % len
	front uint64 // the oldest that is held
	next  uint64
	runs  []run    // ascending; the first one holds front
	index []uint32 // entries, 0 for none; twice as long as ring
}

// An entry of the index is a place in the ring plus 1, and above it a tag: bits of the key that its home does not depend on. A
// key that is another one's neighbour is told from it without a look at the ring, which is a miss of the cache.
const (
	placeBits = 21
	placeMask = 1<<placeBits - 1
	_         = uint(placeMask - 2*MaxKeys + 1) // the ring is less than twice as long as what it holds
)

func tagOf(k *Key) uint32 { return uint32(k[7])<<24 | uint32(k[6])<<16&^placeMask }

// placeOf is the place in the ring of an entry of the index.
func placeOf(x uint32) uint32 { return x&placeMask - 1 }

// Len is how many keys are held, expired ones that nothing has pushed out yet included.
func (t *Table) Len() int { return int(t.next - t.front) }

// Oldest is the stamp of the oldest key, 0 for none.
func (t *Table) Oldest() int64 {
	if t.Len() == 0 {
		return 0
	}
	return t.runs[0].stamp
}

// Bytes is the memory that the table takes.
func (t *Table) Bytes() int { return cap(t.ring)*32 + cap(t.index)*4 + cap(t.runs)*16 }

func (t *Table) bound() int {
	if t.most > 0 {
		return t.most
	}
	return MaxKeys
}

// Find looks a key up as of now. The newest entry of a key counts.
func (t *Table) Find(k Key, now int64) (Entry, bool) {
	if t.next == t.front {
		return Entry{}, false
	}
	at, ok := t.lookup(k)
	if !ok {
		return Entry{}, false
	}
	s := &t.ring[at]
	stamp := t.stampOf(t.sequence(at))
	if now-stamp >= int64(Window) {
		return Entry{}, false
	}
	return Entry{Key: k, Content: s.content, Number: s.number &^ scheduledBit, Scheduled: s.number&scheduledBit != 0, Stamp: stamp}, true
}

// Add holds an entry and lets go of what its stamp puts out of the window. Stamps must not go back: one that is older
// than the newest counts as that one.
func (t *Table) Add(e Entry) {
	if n := len(t.runs); n > 0 {
		e.Stamp = max(e.Stamp, t.runs[n-1].stamp)
	}
	t.Expire(e.Stamp)
	for t.Len() >= t.bound() {
		t.drop()
	}
	if t.Len() == len(t.ring) {
		t.grow()
	}
	if n := len(t.runs); n == 0 || t.runs[n-1].stamp != e.Stamp {
		t.runs = append(t.runs, run{t.next, e.Stamp})
	}
	at := uint32(t.next & uint64(len(t.ring)-1))
	t.ring[at] = slot{e.Key, e.Content, e.Number}
	if e.Scheduled {
		t.ring[at].number |= scheduledBit
	}
	t.next++
	t.put(at)
}

// Expire lets go of what is out of the window at now.
func (t *Table) Expire(now int64) {
	for t.front < t.next && now-t.runs[0].stamp >= int64(Window) {
		t.drop()
	}
	if t.front == t.next && t.ring != nil {
		*t = Table{most: t.most} // a partition whose users stopped using keys gives the memory back
	}
}

// drop lets go of the oldest key.
func (t *Table) drop() {
	at := uint32(t.front & uint64(len(t.ring)-1))
	if i, ok := t.place(&t.ring[at].key); ok && placeOf(t.index[i]) == at { // else a newer one has the same key
		t.free(i)
	}
	t.front++
	if len(t.runs) > 1 && t.runs[1].first <= t.front {
		t.runs = t.runs[1:]
	}
}

// Each calls f with the entries from the oldest to the newest.
func (t *Table) Each(f func(Entry)) {
	r := 0
	for n := t.front; n < t.next; n++ {
		for r+1 < len(t.runs) && t.runs[r+1].first <= n {
			r++
		}
		s := &t.ring[n&uint64(len(t.ring)-1)]
		f(Entry{Key: s.key, Content: s.content, Number: s.number &^ scheduledBit, Scheduled: s.number&scheduledBit != 0, Stamp: t.runs[r].stamp})
	}
}

func (t *Table) stampOf(n uint64) int64 {
	i := sort.Search(len(t.runs), func(i int) bool { return t.runs[i].first > n })
	return t.runs[i-1].stamp
}

// sequence is the number of the slot at a place in the ring.
func (t *Table) sequence(at uint32) uint64 {
	mask := uint64(len(t.ring) - 1)
	return t.front + (uint64(at)-t.front)&mask
}

// reserve makes room for n keys at once.
func (t *Table) reserve(n int) {
	size := firstRing
	for size < n {
		size *= 2
	}
	if n > len(t.ring) {
		t.ring, t.index = make([]slot, size), make([]uint32, 2*size)
	}
}

// grow doubles the ring and makes the index anew.
func (t *Table) grow() {
	old, mask := t.ring, uint64(len(t.ring)-1)
	t.ring = make([]slot, max(firstRing, 2*len(old)))
	t.index = make([]uint32, 2*len(t.ring))
	for n := t.front; n < t.next; n++ {
		at := uint32(n & uint64(len(t.ring)-1))
		t.ring[at] = old[n&mask]
	}
	t.point()
}

// home is where a key's place in the index begins to be looked for. The key is a hash already.
func (t *Table) home(k *Key) uint32 {
	return uint32(binary.LittleEndian.Uint64(k[:])) & uint32(len(t.index)-1)
}

// place finds a key's place in the index, or the free one where it would be put.
func (t *Table) place(k *Key) (uint32, bool) {
	mask, tag := uint32(len(t.index)-1), tagOf(k)
	for i := t.home(k); ; i = (i + 1) & mask {
		x := t.index[i]
		if x == 0 {
			return i, false
		}
		if (x^tag)&^placeMask == 0 && t.ring[placeOf(x)].key == *k {
			return i, true
		}
	}
}

func (t *Table) lookup(k Key) (uint32, bool) {
	i, ok := t.place(&k)
	if !ok {
		return 0, false
	}
	return placeOf(t.index[i]), true
}

// put points the index at a slot; an older one with the same key is not pointed at any more.
func (t *Table) put(at uint32) {
	k := &t.ring[at].key
	i, _ := t.place(k)
	t.index[i] = tagOf(k) | at + 1
}

// free empties a place of the index and moves those behind it that it would cut off from their home.
func (t *Table) free(i uint32) {
	mask := uint32(len(t.index) - 1)
	for j := i; ; {
		j = (j + 1) & mask
		x := t.index[j]
		if x == 0 {
			break
		}
		if home := t.home(&t.ring[placeOf(x)].key); (j-home)&mask >= (j-i)&mask {
			t.index[i] = x
			i = j
		}
	}
	t.index[i] = 0
}
