package replica

import (
	"errors"
	"os"
	"slices"
	"testing"

	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
)

// A start takes a damaged copy's tail to be where the damage begins. What lies behind is read here all the same: the others may lack it.
func TestWalkGoesOnBehindTheTailOfADamagedCopy(t *testing.T) {
	t.Parallel()
	dir, from := t.TempDir(), openStore(t)
	here := openStoreIn(t, dir)
	seg := mq.Segment{ID: 5, Partition: testPartition, Number: 1, Quorum: 2, Leader: from.Identity(), Compared: 1,
		Replicas: []mq.Replica{{Store: from.Identity().Store}, {Store: here.Identity().Store}}}
	whole := openStore(t)
	for _, s := range []*store.Store{from, here, whole} {
		if err := s.CreateSegments([]mq.Segment{seg}); err != nil {
			t.Fatal(err)
		}
	}
	raw, end := fillWith(t, whole, &seg, 40, long)
	fillWith(t, from, &seg, 30, long) // the same ones, as both are made the same way
	for _, data := range raw {        // one by one: the ledger vouches for the first ones only
		e, err := mq.ParseEntry(data)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		err = here.Append(store.Append{Segment: seg.ID, At: e.At, Next: e.Next(), Data: data, Done: func(err error) { done <- err }})
		if err = errors.Join(err, <-done); err != nil {
			t.Fatal(err)
		}
	}
	crashed := t.TempDir() // a start after a crash reads what the ledger does not vouch for
	if err := os.CopyFS(crashed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	spoil(t, crashed, long(20)[:10])
	here = openStoreIn(t, crashed)
	if info, _ := here.Segment(seg.ID); !info.Damaged || !info.Tail.Before(mq.Position{Offset: 30}) {
		t.Fatalf("%+v", info)
	}
	p := holder(t, here, donor{store: from})
	seg.Sealed, seg.End = true, end
	var got, want []uint64
	err := p.walk(t.Context(), &seg, seg.Base, func(e *mq.Entry) error {
		got = append(got, e.At.Offset)
		return nil
	})
	for i := range uint64(40) {
		want = append(want, i)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("read %v: %v", got, err)
	}
}
