package replica

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/shared/mq"
)

// leadAnew begins with another partition on the same store, after the one before was closed, which leads the next segment: what
// a leader had in memory is gone, and what the node keeps of footers is not.
func (o *one) leadAnew() {
	o.t.Helper()
	o.p = New(o.env, testPartition)
	for _, info := range o.store.Segments() {
		o.p.Adopt(info)
	}
	o.open()
	o.waitServing()
}

// chainOf publishes messages with keys, in a segment for each key, and waits until the footers of those before the last are written.
func (o *one) chainOf(keys int) {
	o.t.Helper()
	for k := range keys {
		if k > 0 {
			o.open()
			o.waitWritten(o.world.sealed[k-1].ID)
		}
		o.appendKeyed(keyed{k + 1, 1})
	}
}

// wantKnown publishes all keys again.
func (o *one) wantKnown(keys int) {
	o.t.Helper()
	for k := range keys {
		if again := o.appendKeyed(keyed{k + 1, 1}); again.Count != 0 || again.Repeats[0].Number != uint64(k) {
			o.t.Fatalf("key %d: %+v", k+1, again)
		}
	}
}

// spoilFooters makes the files of footers useless: who reads one derives it again.
func (o *one) spoilFooters() {
	o.t.Helper()
	for _, s := range o.world.sealed {
		if err := os.WriteFile(filepath.Join(o.dir, "footers", fmt.Sprint(s.ID)), []byte("no footer"), 0o644); err != nil {
			o.t.Fatal(err)
		}
	}
}

// A new leader takes what it needs of the footers of sealed segments from memory: kept when they were sealed, or when the node
// looked at them after its start.
func TestNewLeaderReadsNoFooterThatIsKept(t *testing.T) {
	t.Parallel()
	const keys = 6
	o := newOne(t)
	o.chainOf(keys)
	o.p.Close() // what it does beside has ended with it
	o.spoilFooters()
	o.leadAnew()
	o.wantKnown(keys)
	if n := testutil.ToFloat64(o.env.Metrics.Footers); n != 1 { // that of the last segment, whose index ended with its leader
		t.Errorf("%v footers were derived, want 1", n)
	}
	o.stop()
	o.boot()
	for i := range o.world.sealed {
		if whole, err := o.p.DeriveFooter(context.Background(), &o.world.sealed[i], unhurried); err != nil || !whole {
			t.Fatal(whole, err)
		}
	}
	derived := testutil.ToFloat64(o.env.Metrics.Footers)
	o.spoilFooters()
	o.open()
	o.wantKnown(keys)
	o.p.Close()
	o.spoilFooters()
	o.leadAnew() // nothing was published: there is no segment more
	o.wantKnown(keys)
	if n := testutil.ToFloat64(o.env.Metrics.Footers); n != derived {
		t.Errorf("%v footers were derived after the restart, %v of them by a leader", n, n-derived)
	}
}

// What a leader read of files it need not read again.
func TestLeaderKeepsTheFootersItReads(t *testing.T) {
	t.Parallel()
	const keys = 6
	o := newOne(t)
	o.chainOf(keys)
	o.stop()
	o.boot() // nothing looks at what is there
	o.open()
	o.wantKnown(keys)
	if n := testutil.ToFloat64(o.env.Metrics.Footers); n != 1 {
		t.Fatalf("%v footers were derived, want that of the last segment only", n)
	}
	o.p.Close()
	o.spoilFooters()
	o.leadAnew()
	o.wantKnown(keys)
	if n := testutil.ToFloat64(o.env.Metrics.Footers); n != 1 {
		t.Errorf("%v footers were derived, want none more", n)
	}
}

// Without anything kept, or with less than the chain has, everything is as it was.
func TestNewLeaderWithoutKeptFooters(t *testing.T) {
	t.Parallel()
	const keys = 6
	o := newOne(t)
	o.env.Kept.most = 1
	o.chainOf(keys)
	o.p.Close()
	if len(o.env.Kept.items) != 0 || o.env.Kept.bytes != 0 {
		t.Fatalf("%d footers in %d bytes are kept, of one byte", len(o.env.Kept.items), o.env.Kept.bytes)
	}
	o.leadAnew()
	o.wantKnown(keys)
	o.env.Kept.most = 0
	for i := range o.world.sealed { // as if more of each had been kept than is left of it
		s := o.world.sealed[i]
		f := footer.New(s.ID, s.Base, nil)
		f.To = mq.Position{Offset: s.End.Offset + 1}
		o.env.Kept.put(f, 1)
	}
	o.p.Close()
	o.leadAnew()
	o.wantKnown(keys)
}

func TestKeptFootersAreBounded(t *testing.T) {
	t.Parallel()
	c := FooterCache{most: 100}
	end := mq.Position{Offset: 5}
	put := func(id mq.SegmentID, bytes int) {
		c.put(&footer.Footer{Segment: id, To: end}, bytes)
	}
	want := func(ids ...mq.SegmentID) {
		t.Helper()
		if len(c.items) != len(ids) || c.order.Len() != len(ids) {
			t.Fatalf("%d are kept, %d in order, want %v", len(c.items), c.order.Len(), ids)
		}
		for _, id := range ids {
			if c.items[id] == nil {
				t.Fatalf("%d is not kept, want %v", id, ids)
			}
		}
	}
	put(1, 40)
	put(2, 40)
	want(1, 2)
	c.get(1, end)
	put(3, 40) // 2 was used longest ago
	want(1, 3)
	put(3, 70) // in its own place, and it pushes the other out
	want(3)
	put(4, 30)
	want(3, 4)
	if c.bytes != 100 {
		t.Fatalf("%d bytes", c.bytes)
	}
	put(5, 101) // more than there is room for
	want()
	if c.bytes != 0 {
		t.Fatalf("%d bytes of nothing", c.bytes)
	}
	put(6, 10)
	if c.get(6, mq.Position{Offset: 4}) != nil { // the segment is held up to there only: the rest was lost
		t.Fatal("a footer that goes beyond its segment's end")
	}
	want()
	put(7, 10)
	c.drop(7)
	c.drop(8)
	if want(); c.bytes != 0 {
		t.Fatalf("%d bytes of nothing", c.bytes)
	}
}
