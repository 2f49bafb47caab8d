package meta

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// A name has one process: who comes second is refused while the first one lives, and a first one that was put out all the same
// says so and comes back by itself when the other is gone.
func TestOneProcessOfAName(t *testing.T) {
	s, ctx := testStore(t)
	r, err := s.Register(ctx, NodeKey("n"), Node{Name: "n", Store: "one", Addr: "a:1"}, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = s.Register(ctx, NodeKey("n"), Node{Name: "n", Store: "two", Addr: "a:2"}, time.Second, nil)
	if err == nil || !strings.Contains(err.Error(), "another process is registered as log node n") || !strings.Contains(err.Error(), "a:1") {
		t.Errorf("a second process of the name: %v", err)
	}
	var n Node
	if _, err := s.get(ctx, NodeKey("n"), &n); err != nil || n.Store != "one" {
		t.Errorf("%+v is registered (%v)", n, err)
	}
	// One that does not ask takes the key, under its own lease, and leaves.
	g, err := s.c.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	w := watchKey(t, ctx, s, NodeKey("n"))
	if _, err := s.c.Put(ctx, NodeKey("n"), `{"name":"n","store":"two"}`, clientv3.WithLease(g.ID)); err != nil {
		t.Fatal(err)
	}
	if e := nextEvent(t, w); e.Kv.Lease != int64(g.ID) {
		t.Fatalf("%v", e)
	}
	if _, err := s.c.Revoke(ctx, g.ID); err != nil {
		t.Fatal(err)
	}
	if e := nextEvent(t, w); e.Type != clientv3.EventTypeDelete {
		t.Fatalf("%v", e)
	}
	e := nextEvent(t, w)
	if err := decode(e.Kv, &n); e.Type != clientv3.EventTypePut || err != nil || n.Store != "one" {
		t.Errorf("after the other has gone: %v (%v)", e, err)
	}
}

// While another process has the key the first one leaves it alone, whatever it has to say.
func TestRegistrationThatWasTakenIsLeft(t *testing.T) {
	s, ctx := testStore(t)
	r, err := s.Register(ctx, NodeKey("n"), Node{Name: "n", Store: "one"}, time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.c.Grant(ctx, 60)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.c.Put(ctx, NodeKey("n"), `{"name":"n","store":"two"}`, clientv3.WithLease(g.ID)); err != nil {
		t.Fatal(err)
	}
	if err := r.Update(ctx, Node{Name: "n", Store: "one", Full: true}); err == nil {
		t.Error("what another process has was replaced")
	}
	r.Close()
	var n Node
	if _, err := s.get(ctx, NodeKey("n"), &n); err != nil || n.Store != "two" {
		t.Errorf("%+v is registered (%v)", n, err)
	}
}

// What a dead process has left is waited for, and what an earlier run of the same one has left is not.
func TestNameOfADeadProcess(t *testing.T) {
	s, ctx := testStore(t)
	g, err := s.c.Grant(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.c.Put(ctx, NodeKey("n"), `{"name":"n","store":"dead"}`, clientv3.WithLease(g.ID)); err != nil {
		t.Fatal(err)
	}
	r, err := s.Register(ctx, NodeKey("n"), Node{Name: "n", Store: "one"}, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.Register(ctx, NodeKey("n"), Node{Name: "n", Store: "one", Boot: 2}, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	r.Close()
	var n Node
	if _, err := s.get(ctx, NodeKey("n"), &n); err != nil || n.Boot != 2 {
		t.Errorf("%+v is registered (%v)", n, err)
	}
	for _, x := range []struct {
		new      Registrant
		old      string
		replaces bool
	}{
		{Node{Store: "s"}, `{"store":"s","boot":1}`, true},
		{Node{Store: "s", Addr: "a:1"}, `{"store":"t","addr":"a:1"}`, false},
		{Gateway{Addr: "a:1"}, `{"addr":"a:1"}`, true},
		{Gateway{Addr: "a:1"}, `{"addr":"b:1"}`, false},
		{Coordinator{EtcdClient: "a:1", NATS: "a:2"}, `{"etcd_client":"a:1","nats":"a:3"}`, true},
		{Coordinator{EtcdClient: "a:1", NATS: "a:2"}, `{"etcd_client":"b:1","nats":"a:2"}`, false},
		{Report{Store: "s"}, `{"store":"s"}`, true},
	} {
		if is := x.new.replaces([]byte(x.old)); is != x.replaces {
			t.Errorf("%+v replaces %s: %v", x.new, x.old, is)
		}
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
