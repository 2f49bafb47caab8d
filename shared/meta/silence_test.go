package meta

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// gate forwards connections to an etcd member until it is shut: then it keeps them and passes nothing on, like a
// member whose process hangs.
type gate struct {
	net.Listener
	to   string
	mu   sync.RWMutex // locked while it is shut
	work sync.WaitGroup
}

func openGate(t *testing.T, to string) *gate {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Listener: ln, to: to}
	g.work.Go(g.accept)
	t.Cleanup(func() {
		ln.Close()
		g.work.Wait()
	})
	return g
}

func (g *gate) accept() {
	for {
		in, err := g.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", g.to)
		if err != nil {
			in.Close()
			continue
		}
		g.work.Go(func() { g.pass(in, out) })
		g.work.Go(func() { g.pass(out, in) })
	}
}

func (g *gate) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		g.mu.RLock()
		_, werr := to.Write(b[:n])
		g.mu.RUnlock()
		if err != nil || werr != nil {
			return
		}
	}
}

// throughGates starts etcd and gives a store that talks to it directly, one that does so through two gates as if they
// were two members, and the gates.
func throughGates(t *testing.T) (direct, s *Store, one, two *gate) {
	t.Helper()
	e, c := testEtcd(t)
	address := e.Clients[0].Addr().String()
	one, two = openGate(t, address), openGate(t, address)
	s, err := Connect(t.Context(), []string{one.Addr().String(), two.Addr().String()}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(c, quiet()), s, one, two
}

// A member that hangs is left for another one, though its connection stays: what it should tell would be missing.
func TestViewLeavesASilentMember(t *testing.T) {
	direct, s, one, two := throughGates(t)
	ctx := t.Context()
	v := NewView(s, quiet())
	runView(t, ctx, v)
	for i, g := range []*gate{one, two} { // its watches are on one of them
		name := []string{"first", "second"}[i]
		g.mu.Lock()
		if _, err := direct.CreateTopic(ctx, name, mq.DefaultTopicSettings()); err != nil {
			t.Fatal(err)
		}
		waitView(t, ctx, v, name, func(v *View) bool {
			_, ok := v.Topic(name)
			return ok
		})
		g.mu.Unlock()
	}
}

// A member that hangs costs no lease: calls that it swallows are made again at another one, and an update that it
// carries out late, when it wakes, changes nothing.
func TestRegistrationOutlivesASilentMember(t *testing.T) {
	direct, s, one, two := throughGates(t)
	ctx := t.Context()
	key := NodeKey("n")
	r, err := s.Register(ctx, key, Node{}, 8*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	value := 0
	for range 4 { // so that both members have a connection and have been used
		value++
		if err := r.Update(ctx, value); err != nil {
			t.Fatal(err)
		}
	}
	silent := func(g *gate) {
		g.mu.Lock()
		defer g.mu.Unlock()
		value++
		if err := r.Update(ctx, value); err != nil {
			t.Errorf("an update with a silent member: %v", err)
		}
		if err := s.Alive(ctx); err != nil {
			t.Errorf("a read with a silent member: %v", err)
		}
	}
	silent(one)
	silent(two)
	select {
	case <-r.Lost():
		t.Fatal("the lease was lost")
	default:
	}
	r.Close()
	if h, err := direct.get(ctx, key, &value); err != nil || h != 0 {
		t.Fatalf("after Close: revision %d, %v", h, err)
	}
}
