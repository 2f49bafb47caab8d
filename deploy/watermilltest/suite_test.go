package watermilltest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/tests"

	"github.com/splashdam/splashdam/deploy/cluster"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// restartCommand is the first argument of this binary when the suite runs it to restart the cluster; the second is where
// the test that holds the cluster listens.
const restartCommand = "restart-cluster"

// TestMain lets the test binary be the cluster's children, and the command that restarts them.
func TestMain(m *testing.M) {
	if child, err := cluster.RunChild(os.Args[1:]); child {
		if err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) == 3 && os.Args[1] == restartCommand {
		res, err := http.Post(os.Args[2], "", nil)
		if err != nil || res.StatusCode != http.StatusOK {
			fmt.Fprintln(os.Stderr, "restart:", res, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// world is a cluster of processes that the suite may kill.
type world struct {
	t        *testing.T
	cluster  *cluster.Cluster
	restarts atomic.Int32
	url      string // restarts the cluster
}

func newWorld(t *testing.T) *world {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{Dir: t.TempDir(), Nodes: 1, Gateways: 2, Processes: &cluster.Processes{LogLevel: slog.LevelWarn}})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, cluster: c}
	server := httptest.NewServer(http.HandlerFunc(w.restart))
	w.url = server.URL
	t.Cleanup(func() {
		server.Close()
		stop, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Stop(stop); err != nil {
			t.Error(err)
		}
	})
	return w
}

// restart kills (kill -9) the log node and one gateway, and starts them again. Coordinators live on.
func (w *world) restart(out http.ResponseWriter, r *http.Request) {
	n := int(w.restarts.Add(1))
	for _, m := range []*cluster.Member{w.cluster.Node(1), w.cluster.Gateway(n%2 + 1)} {
		err := m.Kill()
		if err == nil {
			err = m.Start(r.Context())
		}
		if err != nil {
			http.Error(out, err.Error(), http.StatusInternalServerError)
			return
		}
	}
}

// pubSub makes a publisher and a subscriber with clients of their own.
func (w *world) pubSub(group string, partitions uint32, concurrency int) (message.Publisher, message.Subscriber) {
	newClient := func() *client.Client {
		c, err := client.New(client.Options{Servers: w.cluster.URLs()})
		if err != nil {
			w.t.Fatal(err)
		}
		return c
	}
	s := &Subscriber{client: newClient(), group: group, topic: api.TopicInput{Partitions: &partitions}, ordering: "none", concurrency: concurrency}
	s.closing, s.close = context.WithCancel(context.Background())
	key := func(m *message.Message) *string { return client.Key(string(m.Payload)) }
	return &Publisher{client: newClient(), key: key}, s
}

// Everything at once: many messages out, several partitions and subscribers, kills in between.
func TestShared(t *testing.T) {
	w := newWorld(t)
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups:        true,
		Persistent:            true,
		RestartServiceCommand: []string{os.Args[0], restartCommand, w.url},
	}, func(*testing.T) (message.Publisher, message.Subscriber) {
		return w.pubSub("suite", 4, 100)
	}, func(_ *testing.T, group string) (message.Publisher, message.Subscriber) {
		return w.pubSub(group, 4, 100)
	})
	if n := w.restarts.Load(); n != 2 {
		t.Errorf("the cluster was killed %d times, want 2", n)
	}
}

// In order: one partition, one message out at a time.
func TestOrdered(t *testing.T) {
	w := newWorld(t)
	tests.TestPubSub(t, tests.Features{
		ConsumerGroups:                      true,
		Persistent:                          true,
		GuaranteedOrder:                     true,
		GuaranteedOrderWithSingleSubscriber: true,
		ForceShort:                          true, // one at a time costs a round trip each, by design
	}, func(*testing.T) (message.Publisher, message.Subscriber) {
		return w.pubSub("suite", 1, 1)
	}, func(_ *testing.T, group string) (message.Publisher, message.Subscriber) {
		return w.pubSub(group, 1, 1)
	})
}

// In order of each key: several partitions, many messages out, several subscribers. Watermill's test has 16 kinds of
// messages and wants those of each kind in order; the adapter makes the kind the key.
func TestOrderedByKey(t *testing.T) {
	w := newWorld(t)
	c := tests.TestContext{TestID: tests.NewTestID(), Features: tests.Features{ConsumerGroups: true, Persistent: true, GuaranteedOrder: true}}
	tests.TestPublishSubscribeInOrder(t, c, func(*testing.T) (message.Publisher, message.Subscriber) {
		p, s := w.pubSub("suite", 4, 50)
		s.(*Subscriber).ordering = "key"
		return p, s
	})
}

// A group of its own for each subscriber: new ones get what was published before them.
func TestOldMessages(t *testing.T) {
	w := newWorld(t)
	c := tests.TestContext{TestID: tests.NewTestID(), Features: tests.Features{Persistent: true, NewSubscriberReceivesOldMessages: true}}
	tests.TestNewSubscriberReceivesOldMessages(t, c, func(*testing.T) (message.Publisher, message.Subscriber) {
		return w.pubSub("g-"+watermill.NewUUID(), 4, 10)
	})
}
