package coordinator

import (
	"context"
	"testing"

	"github.com/splashdam/splashdam/shared/bus"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// connected is a bus that has a server.
func (c *cluster) bus(name string) *bus.Bus {
	c.t.Helper()
	b := bus.Connect(c.view, name, testLog(c.t))
	c.t.Cleanup(b.Close)
	for b.Flush(c.ctx) != nil {
		if c.ctx.Err() != nil {
			c.t.Fatal("no bus")
		}
		c.wait("a coordinator", func(v *meta.View) bool { return len(v.Coordinators()) > 0 })
	}
	return b
}

// TestWakesReachOthers: wake-ups of one topic reach its subscribers only, whichever way they were gathered, and the
// last one to unsubscribe ends it.
func TestWakesReachOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 0, startAll(t, configs(t, 1)...)...)
	gateway, node := c.bus("gateway"), c.bus("node")
	type wake struct {
		who   string
		pairs []bus.Pair
	}
	wakes := make(chan wake, 1000)
	var cancels []func()
	for _, who := range []string{"a", "b"} {
		cancels = append(cancels, gateway.SubscribeWake(7, func(p []bus.Pair) { wakes <- wake{who, p} }))
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := gateway.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	want := map[bus.Pair]bool{}
	node.PublishWake(8, bus.Pair{Partition: 0, Group: 1})
	for i := range uint32(10_000) { // more than one message holds
		p := bus.Pair{Partition: i, Group: mq.GroupID(i%3 + 1)}
		want[p] = true
		node.PublishWake(7, p, p)
	}
	got := map[string]map[bus.Pair]bool{"a": {}, "b": {}}
	for len(got["a"]) < len(want) || len(got["b"]) < len(want) {
		select {
		case w := <-wakes:
			for _, p := range w.pairs {
				if !want[p] {
					t.Fatalf("%s was woken for %+v", w.who, p)
				}
				got[w.who][p] = true
			}
		case <-ctx.Done():
			t.Fatalf("a got %d, b got %d of %d", len(got["a"]), len(got["b"]), len(want))
		}
	}
	cancels[0]()
	cancels[0]()
	node.PublishWake(7, bus.Pair{Partition: 1, Group: 1})
	for w := range wakes {
		if w.who == "a" {
			continue // delivered before it ended
		}
		break
	}
	cancels[1]()
	if err := gateway.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestBusOutlivesItsServer: the coordinator restarts; the same subscription works again.
func TestBusOutlivesItsServer(t *testing.T) {
	t.Parallel()
	cfgs := configs(t, 1)
	first := startAll(t, cfgs...)[0]
	c := newCluster(t, 0, first)
	b := c.bus("both")
	looks := make(chan string, 1000)
	defer b.SubscribeLook(func(reason string) {
		select {
		case looks <- reason:
		default:
		}
	})()
	stopped(t, first)
	if b.Flush(c.ctx) == nil && b.Connected() {
		t.Log("the connection's end is not seen yet")
	}
	b.Look("nobody hears this, and nothing fails")
	startAll(t, cfgs...)
	for {
		flush, cancel := context.WithTimeout(c.ctx, patience)
		err := b.Flush(flush)
		cancel()
		b.Look("again")
		select {
		case reason := <-looks:
			if reason == "again" {
				return
			}
		default:
		}
		if c.ctx.Err() != nil {
			t.Fatalf("no look arrives: %v", err)
		}
	}
}
