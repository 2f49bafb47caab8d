package meta

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// watchKey gives the events of a key from now on.
func watchKey(t *testing.T, ctx context.Context, s *Store, key string) clientv3.WatchChan {
	t.Helper()
	w := s.c.Watch(ctx, key, clientv3.WithCreatedNotify())
	if r := <-w; r.Err() != nil || !r.Created {
		t.Fatalf("%+v", r)
	}
	return w
}

func nextEvent(t *testing.T, w clientv3.WatchChan) *clientv3.Event {
	t.Helper()
	for r := range w {
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		if len(r.Events) > 0 {
			return r.Events[0]
		}
	}
	t.Fatal("the watch ended")
	return nil
}

// TestMuseum07LostLeaseIsReplaced: the lease goes away behind the registration's back; the key comes back under
// another lease, with the newest value.
func TestMuseum07LostLeaseIsReplaced(t *testing.T) {
	s, ctx := testStore(t)
	r, err := s.Register(ctx, NodeKey("n"), Node{Name: "n", Boot: 1}, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Update(ctx, Node{Name: "n", Boot: 2}); err != nil {
		t.Fatal(err)
	}
	have, err := s.c.Get(ctx, NodeKey("n"))
	if err != nil || len(have.Kvs) != 1 {
		t.Fatal(have, err)
	}
	w := watchKey(t, ctx, s, NodeKey("n"))
	old := have.Kvs[0].Lease
	if _, err := s.c.Revoke(ctx, clientv3.LeaseID(old)); err != nil {
		t.Fatal(err)
	}
	if e := nextEvent(t, w); e.Type != clientv3.EventTypeDelete {
		t.Fatalf("%v", e)
	}
	e := nextEvent(t, w)
	if e.Type != clientv3.EventTypePut || e.Kv.Lease == old || e.Kv.Lease == 0 {
		t.Fatalf("%v", e)
	}
	var n Node
	if err := decode(e.Kv, &n); err != nil || n.Boot != 2 {
		t.Errorf("came back as %+v", n)
	}
	select {
	case <-r.Lost():
	case <-ctx.Done():
		t.Error("nobody was told")
	}
}

// TestMuseum04GateStopsKeepalives: while the gate fails the lease runs out, and comes back when it works again.
func TestMuseum04GateStopsKeepalives(t *testing.T) {
	s, ctx := testStore(t)
	var broken atomic.Bool
	gate := func(ctx context.Context) error {
		if broken.Load() {
			<-ctx.Done() // a disk that stalls
			return ctx.Err()
		}
		return nil
	}
	r, err := s.Register(ctx, NodeKey("n"), Node{Name: "n"}, time.Second, gate)
	if err != nil {
		t.Fatal(err)
	}
	w := watchKey(t, ctx, s, NodeKey("n"))
	broken.Store(true)
	if e := nextEvent(t, w); e.Type != clientv3.EventTypeDelete {
		t.Fatalf("%v", e)
	}
	broken.Store(false)
	if e := nextEvent(t, w); e.Type != clientv3.EventTypePut {
		t.Fatalf("%v", e)
	}
	r.Close()
	if e := nextEvent(t, w); e.Type != clientv3.EventTypeDelete {
		t.Fatalf("Close left the key: %v", e)
	}
	if _, err := s.Register(ctx, NodeKey("n"), Node{}, time.Second, func(context.Context) error { return errors.New("no disk") }); err == nil {
		t.Error("registered with a gate that fails")
	}
}

// A gate that does not let pass in time at first is asked again, as long as the caller waits.
func TestRegisterWaitsForTheGate(t *testing.T) {
	s, ctx := testStore(t)
	slow := 2
	gate := func(ctx context.Context) error {
		if slow--; slow < 0 {
			return nil
		}
		<-ctx.Done()
		return fmt.Errorf("a disk that has much to do: %w", ctx.Err())
	}
	r, err := s.Register(ctx, NodeKey("n"), Node{Name: "n"}, time.Second, gate)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	waits, stop := context.WithCancel(ctx)
	_, err = s.Register(waits, NodeKey("n"), Node{}, time.Second, func(ctx context.Context) error {
		stop() // the caller does not wait any longer
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the caller went, and the answer is %v", err)
	}
}

// TestRegistrationOfAnotherProcessIsNotReplaced: after a lost lease, somebody else has the name.
func TestRegistrationOfAnotherProcessIsNotReplaced(t *testing.T) {
	s, ctx := testStore(t)
	r, err := s.Register(ctx, NodeKey("n"), Node{Name: "n", Store: "one"}, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Register(ctx, NodeKey("n"), Node{Name: "n", Store: "two"}, 2*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	first := r.lease
	if _, err := s.c.Revoke(ctx, first); err != nil {
		t.Fatal(err)
	}
	<-r.Lost()
	r.Close() // waits for the try to register again, if one is under way
	var n Node
	if _, err := s.get(ctx, NodeKey("n"), &n); err != nil || n.Store != "two" {
		t.Errorf("%+v is registered (%v)", n, err)
	}
}

func TestOneLeads(t *testing.T) {
	s, ctx := testStore(t)
	var leading atomic.Int32
	var takenAway atomic.Bool // from then on two may overlap for a moment: a lease is no proof
	type reign struct {
		name string
		end  chan struct{}
	}
	reigns := make(chan reign)
	done := make(chan struct{})
	run, cancel := context.WithCancel(ctx)
	for _, name := range []string{"a", "b", "c"} {
		go func() {
			defer func() { done <- struct{}{} }()
			s.Lead(run, name, 2*time.Second, func(led context.Context) {
				if n := leading.Add(1); n != 1 && !takenAway.Load() {
					t.Errorf("%d lead at once", n)
				}
				defer leading.Add(-1)
				r := reign{name, make(chan struct{})}
				select {
				case reigns <- r:
				case <-led.Done():
					return
				}
				select {
				case <-r.end:
				case <-led.Done():
				}
			})
		}()
	}
	for range 3 {
		r := <-reigns
		if name, err := s.Controller(ctx); err != nil || name != r.name {
			t.Errorf("%q leads, the key says %q (%v)", r.name, name, err)
		}
		close(r.end)
	}
	// A lease that is taken away ends the reign.
	<-reigns
	have, err := s.c.Get(ctx, keyController)
	if err != nil || len(have.Kvs) != 1 {
		t.Fatal(have, err)
	}
	takenAway.Store(true)
	if _, err := s.c.Revoke(ctx, clientv3.LeaseID(have.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	<-reigns // somebody else leads
	cancel()
	for range 3 {
		<-done
	}
	if leading.Load() != 0 {
		t.Error("somebody still leads")
	}
}
