package replica

import (
	"context"
	"fmt"
	"testing"

	"github.com/splashdam/splashdam/lognode/internal/footer"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// offer gives a follower's copy n more entries of its leader, and waits until they are durable.
func (o *one) offer(s *mq.Segment, next mq.Position, prev mq.Position, n int) (mq.Position, mq.Position) {
	o.t.Helper()
	for range n {
		body, count := batchOf(fmt.Sprint(next))
		e := mq.Entry{Segment: s.ID, At: next, Prev: prev, Count: uint32(count), Stamp: int64(next.Offset), Boot: s.Leader.Boot,
			Records: mq.AppendRecord(nil, mq.KindMessages, body)}
		acks := make(chan frame.Ack, 10)
		o.p.Offer(s.Leader, s.ID, []mq.Entry{e}, [][]byte{e.AppendTo(nil)}, func(a frame.Ack) { acks <- a })
		if a := <-acks; a.State != frame.AckOK || a.Tail != e.Next() {
			o.t.Fatalf("%+v", a)
		}
		prev, next = next, e.Next()
	}
	return next, prev
}

// indexedTo is how far a copy is indexed in memory and on disk, once what catches up has caught up.
func (o *one) indexedTo(s *mq.Segment) mq.Position {
	o.t.Helper()
	for {
		ch := make(chan bool, 1)
		o.p.post(func() { h := o.p.copies[s.ID]; ch <- h.late != nil && h.late.reading })
		if !<-ch {
			break
		}
	}
	f := footer.New(s.ID, s.Base, nil)
	parts := o.p.partsInMemory(context.Background(), s.ID)[s.ID]
	if file, size, err := o.store.OpenFooter(s.ID); err == nil {
		f.Read(file, size)
		_ = file.Close()
	}
	for _, part := range parts {
		f.TakeBytes(part)
	}
	return f.To
}

// A follower that was restarted indexes what it had, once more comes, so that it can take over at once.
func TestRestartedFollowerCatchesUpItsIndex(t *testing.T) {
	t.Parallel()
	o := newOne(t)
	other := mq.Incarnation{Store: "other", Boot: 3}
	self := o.store.Identity()
	s := &mq.Segment{ID: 77, Partition: testPartition, Number: 9, Base: mq.Position{Offset: 5}, Quorum: 1, Leader: other,
		Replicas: []mq.Replica{{Store: other.Store, Node: "o"}, {Store: self.Store, Node: "n"}}}
	if err := o.store.CreateSegments([]mq.Segment{*s}); err != nil {
		t.Fatal(err)
	}
	info, _ := o.store.Segment(s.ID)
	o.p.Adopt(info)
	next, prev := o.offer(s, s.Base, s.Base, 10)
	if to := o.indexedTo(s); to != next {
		t.Fatalf("indexed to %s of %s", to, next)
	}
	o.restart()
	if to := o.indexedTo(s); to != s.Base {
		t.Fatalf("indexed to %s though nothing came since the restart", to)
	}
	next, _ = o.offer(s, next, prev, 10)
	if to := o.indexedTo(s); to != next {
		t.Fatalf("after the restart indexed to %s of %s", to, next)
	}
}
