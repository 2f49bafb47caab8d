package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// donors are nodes that answer from their stores.
type donors struct {
	alone
	stores map[mq.StoreID]*store.Store
}

func (d donors) Client(id mq.StoreID) (mqpb.LogNodeClient, error) {
	return donor{store: d.stores[id]}, nil
}

// broken are copies of one sealed segment of 40 entries, of which each has entries that can't be read.
type broken struct {
	seg    mq.Segment
	raw    [][]byte
	stores []*store.Store
	parts  []*Partition
}

// breakCopies makes a copy for each list of entries that are broken in it.
func breakCopies(t *testing.T, bad ...[]int) *broken {
	t.Helper()
	return breakCopiesOf(t, func(int, int) string { return "" }, bad...)
}

// breakCopiesOf is breakCopies where an entry of a copy has some more text at its end.
func breakCopiesOf(t *testing.T, more func(i, n int) string, bad ...[]int) *broken {
	t.Helper()
	b := &broken{}
	dirs := make([]string, len(bad))
	for i := range bad {
		dirs[i] = t.TempDir()
		b.stores = append(b.stores, openStoreIn(t, dirs[i]))
	}
	b.seg = mq.Segment{ID: 5, Partition: testPartition, Number: 1, Quorum: 2, Leader: b.stores[0].Identity(), Compared: 1}
	for _, s := range b.stores {
		b.seg.Replicas = append(b.seg.Replicas, mq.Replica{Store: s.Identity().Store})
	}
	peers := donors{stores: map[mq.StoreID]*store.Store{}}
	var end mq.Position
	for i, s := range b.stores {
		noError(t, s.CreateSegments([]mq.Segment{b.seg}))
		b.raw, end = fillWith(t, s, &b.seg, 40, func(n int) string { return long(n) + more(i, n) })
		noError(t, s.SealSegments([]mq.SegmentID{5}))
		noError(t, s.SetEnd(5, end))
		noError(t, s.Close())
		s = openStoreIn(t, dirs[i]) // what lies in a file that is written still is not read beyond the first damage
		beside := b.seg
		beside.ID, beside.Leader = 6, s.Identity()
		noError(t, s.CreateSegments([]mq.Segment{beside}))
		fillWith(t, s, &beside, 1, func(int) string { return long(99) })
		noError(t, s.Close())
		for _, n := range bad[i] {
			spoil(t, dirs[i], fmt.Sprintf("message-%02d", n))
		}
		b.stores[i] = openStoreIn(t, dirs[i])
		if len(bad[i]) > 0 && !errors.Is(b.stores[i].Verify(5), store.ErrDamaged) {
			t.Fatal("the damage is not met")
		}
		peers.stores[b.stores[i].Identity().Store] = b.stores[i]
	}
	b.seg.Sealed, b.seg.End = true, end
	for _, s := range b.stores {
		b.parts = append(b.parts, holder(t, s, peers))
	}
	return b
}

// repair repairs all copies side by side.
func (b *broken) repair(ctx context.Context) []error {
	errs := make([]error, len(b.parts))
	var wg sync.WaitGroup
	for i, p := range b.parts {
		wg.Go(func() { errs[i] = p.Repair(ctx, &b.seg, unhurried) })
	}
	wg.Wait()
	return errs
}

// mustHold checks that a copy gives every entry as it was written, but for some.
func (b *broken) mustHold(t *testing.T, i int, but ...int) {
	t.Helper()
	for n, want := range b.raw {
		got, err := b.stores[i].EntryAt(5, uint64(n))
		if slices.Contains(but, n) {
			if !errors.Is(err, store.ErrDamaged) {
				t.Errorf("copy %d answers entry %d with %v", i, n, err)
			}
		} else if err != nil || !bytes.Equal(got, want) {
			t.Errorf("copy %d, entry %d: %d bytes, %v", i, n, len(got), err)
		}
	}
}

// Copies that are damaged at different places all become whole, at once or one after the other, and are what they were.
func TestCopiesDamagedAtDifferentPlacesAreRepaired(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string][][]int{
		"two":                             {{10}, {20, 21, 22}},
		"three":                           {{5, 39}, {15, 0}, {25}},
		"nothing is whole in a third":     {{1, 3, 5}, {0, 2, 4}, {0, 1, 2}},
		"the first and the last of three": {{0, 39}, {0, 20}, {20, 39}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := breakCopies(t, bad...)
			if err := errors.Join(b.repair(t.Context())...); err != nil {
				t.Fatal(err)
			}
			for i, s := range b.stores {
				b.mustHold(t, i)
				noError(t, s.Verify(5))
				if info, _ := s.Segment(5); info.Damaged || info.Tail != b.seg.End || info.Count != 40 || info.End == nil || !info.SealFlag {
					t.Errorf("copy %d is %+v", i, info)
				}
				state := make(chan State, 1)
				b.parts[i].Probe(5, func(st State) { state <- st })
				if st := <-state; !st.Known || !st.Remade || st.Tail != b.seg.End {
					t.Errorf("copy %d answers %+v", i, st)
				}
			}
		})
	}
}

// An entry that is broken in all copies can't be made good. Nothing is given up for it: each copy keeps what it has, the rest
// is read together, and nothing was written, however often it is tried. Once a copy comes that has it, all become whole.
func TestDamageInAllCopiesChangesNothing(t *testing.T) {
	t.Parallel()
	b := breakCopies(t, []int{10, 30}, []int{20, 30}, []int{30, 35})
	for range 3 {
		for i, err := range b.repair(t.Context()) {
			if !errors.Is(err, errNowhere) {
				t.Errorf("copy %d: %v", i, err)
			}
		}
	}
	for i, bad := range [][]int{{10, 30}, {20, 30}, {30, 35}} {
		b.mustHold(t, i, bad...)
		if info, _ := b.stores[i].Segment(5); !info.Damaged || info.Tail != b.seg.End || info.Count != 40 {
			t.Errorf("copy %d is %+v", i, info)
		}
		if b.parts[i].readable(t.Context(), &b.seg) {
			t.Error("entry 30 is broken everywhere")
		}
		n := 0
		err := b.parts[i].walk(t.Context(), &b.seg, b.seg.Base, func(e *mq.Entry) error { n++; return nil })
		if !errors.Is(err, errNowhere) || n != 30 {
			t.Errorf("%d entries are read: %v", n, err)
		}
		rest := mq.Position{Offset: 31}
		noError(t, b.parts[i].walk(t.Context(), &b.seg, rest, func(e *mq.Entry) error { n++; return nil }))
		if n != 39 {
			t.Errorf("%d entries are read", n)
		}
	}
}

// What a damaged copy says of itself, as many entries with such a sum, may be wrong, too. Then it is replaced as soon as another whole
// copy says what the new one does, and not before.
func TestDamagedCopyWithAWrongAccountIsReplaced(t *testing.T) {
	t.Parallel()
	wrong := func(i, n int) string {
		if i == 0 && n == 10 {
			return "!"
		}
		return ""
	}
	b := breakCopiesOf(t, wrong, []int{10}, []int{20}, []int{30})
	if err := b.parts[0].Repair(t.Context(), &b.seg, unhurried); !errors.Is(err, store.ErrAccount) {
		t.Fatalf("nobody vouches for it: %v", err)
	}
	b.mustHold(t, 0, 10)
	for _, i := range []int{1, 2, 0} {
		noError(t, b.parts[i].Repair(t.Context(), &b.seg, unhurried))
	}
	for i, s := range b.stores {
		b.mustHold(t, i)
		noError(t, s.Verify(5))
	}
}

// Whole copies that differ vouch for nothing.
func TestCopiesThatDifferVouchForNothing(t *testing.T) {
	t.Parallel()
	wrong := func(i, n int) string {
		if i != 2 && n == 10+i {
			return "!"
		}
		return ""
	}
	b := breakCopiesOf(t, wrong, []int{10}, nil, nil)
	if err := b.parts[0].Repair(t.Context(), &b.seg, unhurried); !errors.Is(err, store.ErrAccount) {
		t.Fatalf("two that differ: %v", err)
	}
}

// A repair that is given up half-way, because its node stops, leaves the damaged copy as it was.
func TestRepairThatEndsHalfWay(t *testing.T) {
	t.Parallel()
	b := breakCopies(t, []int{10}, []int{20})
	ctx, cancel := context.WithCancel(t.Context())
	pieces := 0
	err := b.parts[0].Repair(ctx, &b.seg, func(ctx context.Context, _ int) error {
		if pieces++; pieces == 31 { // 30 entries were read, from the first that is broken on, and the new copy was written
			cancel()
		}
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.mustHold(t, 0, 10)
	noError(t, errors.Join(b.repair(t.Context())...))
	b.mustHold(t, 0)
	b.mustHold(t, 1)
}
