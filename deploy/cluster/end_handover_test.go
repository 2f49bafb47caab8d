package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/shared/client"
)

const (
	handoverKeys  = 12
	handoverLease = time.Second
)

// TestMuseum24KeysFlowInOrderWhileMembersComeAndGo: in key order no message of a key is overtaken, whoever owns its
// partition, and no key stalls when a consumer joins, leaves or dies, or when one message fails (Pulsar 8115, 15705,
// 21199).
func TestMuseum24KeysFlowInOrderWhileMembersComeAndGo(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Gateways: 2})
	one := via(t, c, 1)
	one.topic("keys", `{"partitions":4}`)
	one.call(201, "PUT", "/v1/topics/keys/groups/g", `{"mode":"assigned","ordering":"key","backoff":{"initial":"50ms","multiplier":1,"max":"50ms","jitter":0},"max_attempts":0}`, nil)
	o := &handover{t: t, urls: c.URLs(), check: checker.New(checker.Options{Run: 7, Fresh: true, Disturbed: true})}
	for i := range o.keys {
		o.keys[i].acked, o.keys[i].room = map[int]bool{}, make(chan struct{}, 20)
	}
	first, second := o.member("first"), o.member("second")
	var producers sync.WaitGroup
	producing, enough := context.WithCancel(t.Context())
	for key := range handoverKeys {
		producers.Go(func() { o.produce(producing, key) })
	}
	t.Cleanup(producers.Wait) // the test may fail before
	t.Cleanup(enough)
	o.more(150)
	third := o.member("third")
	o.more(150)
	first.leave()
	o.more(150)
	second.kill()
	o.more(150)
	fourth := o.member("fourth")
	o.more(150)
	enough()
	producers.Wait()
	o.until("everything is acknowledged", func() bool { return o.check.Unacked() <= int(o.unsure.Load()) })
	third.leave()
	fourth.leave()
	if r := o.check.Finish(); r.Violations() > 0 || r.Unsettled > int(o.unsure.Load()) {
		t.Errorf("%+v", r)
	}
}

// handover is what the members and producers of the test share.
type handover struct {
	t     *testing.T
	urls  []string
	check *checker.Checker
	loops atomic.Int64
	// unsure counts acknowledgements that were sent and not answered.
	unsure    atomic.Int64
	delivered atomic.Int64

	mu   sync.Mutex
	keys [handoverKeys]keyOrder
}

// keyOrder is what is known of one key. Its messages are numbered as they are stored.
type keyOrder struct {
	stored []uint32      // ids
	acked  map[int]bool  // an acknowledgement was sent: it may be carried out
	room   chan struct{} // holds what was published and is not acknowledged, so that producers don't run away
}

func (o *handover) client(rt http.RoundTripper) *client.Client {
	o.t.Helper()
	cl, err := client.New(client.Options{Servers: o.urls, HTTP: &http.Client{Transport: rt}, Retry: client.Retry{Elapsed: 20 * time.Second}})
	must(o.t, err)
	return cl
}

// produce publishes messages of one key, each after the answer to the one before.
func (o *handover) produce(ctx context.Context, key int) {
	transport := client.NewTransport()
	defer transport.CloseIdleConnections()
	cl := o.client(transport)
	name := fmt.Sprintf("key-%d", key)
	for {
		select {
		case o.keys[key].room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		value, id, ok := o.check.Next(nil, key, 64)
		if !ok {
			return
		}
		o.mu.Lock()
		o.keys[key].stored = append(o.keys[key].stored, id) // before it can be delivered
		o.mu.Unlock()
		out, err := cl.Publish(context.WithoutCancel(ctx), "keys", client.Message{Key: &name, Value: value})
		if err != nil {
			o.t.Errorf("publishing: %v", err)
			return
		}
		o.check.Stored(id, out.Partition, out.Offset)
	}
}

// more waits until n more messages were delivered.
func (o *handover) more(n int64) {
	o.t.Helper()
	want := o.delivered.Load() + n
	o.until(fmt.Sprint(n, " more deliveries"), func() bool { return o.delivered.Load() >= want })
}

func (o *handover) until(what string, ok func() bool) {
	o.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(hang); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			o.t.Fatalf("waiting for: %s", what)
		}
	}
}

// workingMember is one consumer of the test.
type workingMember struct {
	leave, kill func()
}

func (o *handover) member(name string) workingMember {
	wire := &mortal{RoundTripper: client.NewTransport()}
	wire.life, wire.die = context.WithCancel(context.Background())
	cl := o.client(wire)
	ctx, stop := context.WithCancel(context.Background())
	number := int(o.loops.Add(1))
	done := make(chan error, 1)
	w := &worker{o: o, number: number, client: cl}
	go func() {
		done <- cl.Consumer("keys", "g", w.handle, client.ConsumerOptions{Concurrency: 8, Lease: handoverLease, Drain: time.Second,
			Member: &client.MemberOptions{Name: name, TTL: 2 * time.Second}}).Run(ctx)
	}()
	end := sync.OnceFunc(func() {
		stop()
		if err := <-done; err != nil && wire.life.Err() == nil {
			o.t.Errorf("member %s: %v", name, err)
		}
		wire.die()
		cl.Close()
	})
	kill := func() { wire.die(); end() }
	o.t.Cleanup(kill) // the test may fail before it ends
	return workingMember{leave: end, kill: kill}
}

// mortal ends all requests when its life ends, and makes no more.
type mortal struct {
	http.RoundTripper
	life context.Context
	die  context.CancelFunc
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(m.life, cancel)
	if m.life.Err() != nil {
		cancel()
	}
	res, err := m.RoundTripper.RoundTrip(r.WithContext(ctx))
	if err != nil {
		stop()
		cancel()
	}
	return res, err // the answer's end is the request's; what stays registered ends with the test
}

// worker is the handler of one member.
type worker struct {
	o      *handover
	number int
	client *client.Client
	seen   atomic.Int64
}

var errNotNow = errors.New("not now")

func (w *worker) handle(ctx context.Context, d client.Delivery) error {
	o := w.o
	fence, err := checker.ParseFence(d.Fence)
	if err != nil {
		o.t.Error(err)
	}
	var key int
	if _, err := fmt.Sscanf(string(d.Key), "key-%d", &key); err != nil {
		o.t.Errorf("key %q", d.Key)
		return nil
	}
	o.check.Delivered(checker.Delivery{Consumer: w.number, Partition: d.Partition, Offset: d.Offset, Attempt: d.Attempt, Fence: fence, Value: d.Value})
	o.inOrder(key, checker.ID(d.Value))
	o.delivered.Add(1)
	if w.seen.Add(1)%25 == 0 && d.Attempt == 1 {
		return errNotNow // it comes again, and what is behind it waits
	}
	o.sent(key, checker.ID(d.Value))
	switch err := w.client.Ack(ctx, d.Receipt); {
	case err == nil:
		o.check.Acked(d.Partition, d.Offset, fence)
	default:
		o.unsure.Add(1)
	}
	return nil // the consumer acknowledges once more, which is fine
}

// inOrder wants every earlier message of the key to have been acknowledged.
func (o *handover) inOrder(key int, id uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	k := &o.keys[key]
	for i, earlier := range k.stored {
		if earlier == id {
			return
		}
		if !k.acked[i] {
			o.t.Errorf("key %d: message %d was delivered before %d was acknowledged", key, id, earlier)
			return
		}
	}
	o.t.Errorf("key %d: message %d was never stored", key, id)
}

// sent notes that an acknowledgement is about to be sent.
func (o *handover) sent(key int, id uint32) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, stored := range o.keys[key].stored {
		if stored == id && !o.keys[key].acked[i] {
			o.keys[key].acked[i] = true
			<-o.keys[key].room
		}
	}
}
