package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/deploy/wallclock"
	"github.com/splashdam/splashdam/gateway"
	"github.com/splashdam/splashdam/lognode"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mq"
)

// mayDiffer is how far the clocks of nodes may be apart without anybody minding (rule R8), twice: of a leader before and one
// after. The clock of the test is right.
const mayDiffer = 2 * time.Second

// wrong is a cluster of processes whose clocks the test sets.
type wrong struct {
	t   *testing.T
	c   *Cluster
	dir string
	sdk *client.Client // goes to whichever gateway answers
}

// startWrong starts three nodes and what else is wanted, with clocks that are off as off says from the start.
func startWrong(t *testing.T, gateways int, off map[string]time.Duration) *wrong {
	t.Helper()
	w := &wrong{t: t, dir: t.TempDir()}
	for _, name := range []string{"coordinator-1", "node-1", "node-2", "node-3", "gateway-1", "gateway-2"} {
		w.set(name, off[name])
	}
	w.c = start(t, Options{Dir: w.dir, Nodes: 3, Gateways: gateways, Processes: &Processes{},
		GatewayConfig: func(_ int, cfg *gateway.Config) { cfg.WebhooksAllowPrivate = true },
		NodeConfig: func(_ int, cfg *lognode.Config) {
			cfg.BallastBytes, cfg.VolumeBytes, cfg.SegmentBytes = 1<<20, 32<<20, 1<<20
		}})
	w.sdk = w.through(w.c.URLs()...)
	return w
}

// through is a client of some gateways.
func (w *wrong) through(urls ...string) *client.Client {
	w.t.Helper()
	c, err := client.New(client.Options{Servers: urls})
	must(w.t, err)
	w.t.Cleanup(c.Close)
	return c
}

// set puts a process's clock ahead.
func (w *wrong) set(name string, by time.Duration) {
	w.t.Helper()
	must(w.t, wallclock.Set(wallclock.Of(w.dir, name), by))
}

// topic makes one with three replicas.
func (w *wrong) topic(name string, partitions uint32, retention time.Duration) {
	w.t.Helper()
	replicas := 3
	in := api.TopicInput{Partitions: &partitions, Replicas: &replicas}
	if retention > 0 {
		d := mq.Duration(retention)
		in.Retention = &api.RetentionInput{Time: &d}
	}
	_, err := w.sdk.CreateTopic(w.t.Context(), name, in)
	must(w.t, err)
}

func (w *wrong) publish(topic string, m client.Message) api.Published {
	w.t.Helper()
	r, err := w.sdk.Publish(ctxFor(w.t), topic, m)
	must(w.t, err)
	return r
}

// held is a lease that outlasts a test on the busiest machine, and would not outlast a clock that jumps.
const held = 20 * time.Minute

// next is the next message of a group, with an ID of "" if none comes within wait.
func (w *wrong) next(topic, group string, lease, wait time.Duration) client.Delivery {
	w.t.Helper()
	var last error
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		var got []client.Delivery
		got, last = w.sdk.Receive(ctxFor(w.t), topic, group, api.ReceiveRequest{Max: 1, Lease: mq.Duration(lease), Wait: mq.Duration(min(wait, 5*time.Second))})
		if last == nil && len(got) > 0 {
			return got[0]
		}
	}
	if last != nil {
		w.t.Errorf("group %s of %s: %v", group, topic, last)
	}
	return client.Delivery{}
}

// leads are the partitions of a topic that each node leads.
func (w *wrong) leads(topic string) map[string]int {
	w.t.Helper()
	out := map[string]int{}
	all, err := w.sdk.Topic(ctxFor(w.t), topic)
	must(w.t, err)
	for _, p := range all.Partitions {
		out[p.Leader]++
	}
	return out
}

// replicated says whether all partitions are led and have three replicas that are there.
func (w *wrong) replicated(topic string) bool {
	w.t.Helper()
	all, err := w.sdk.Topic(ctxFor(w.t), topic)
	must(w.t, err)
	for _, p := range all.Partitions {
		if p.Leader == "" || len(p.Replicas) != 3 || slices.ContainsFunc(p.Replicas, func(x api.Replica) bool { return !x.Alive }) {
			return false
		}
	}
	return true
}

// A leader whose clock jumps by an hour leads no longer, and stays a replica. What waits comes when it should: neither early nor an
// hour late; leases go on as they were given; keys are known; nothing is retained away. When the clock is right it leads again.
func TestClockOfALeaderJumps(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			leaderJumps(startWrong(t, 1, nil), by)
		})
	}
}

func leaderJumps(w *wrong, by time.Duration) {
	t := w.t
	w.topic("t", 1, 30*time.Minute)
	w.topic("many", 6, 0)
	eventually(t, "every node leads", func() bool { return len(w.leads("many")) == 3 && w.replicated("many") && w.replicated("t") })
	leader := via(t, w.c, 1).leader("t", 0)
	published := w.publish("t", client.Message{Value: []byte("keyed"), IdempotencyKey: "k"})
	long := w.next("t", "long", held, hang)
	short := w.next("t", "short", 5*time.Second, hang)
	shortUntil := time.Now().Add(5 * time.Second)
	nacked := w.next("t", "nacked", held, hang)
	delay := 4 * time.Second
	must(t, w.sdk.Nack(t.Context(), nacked.Receipt, &delay, "later"))
	nackedUntil := time.Now().Add(delay)
	due := time.Now().Round(0).Add(4 * time.Second)
	for i := range 5 {
		w.publish("t", client.Message{Value: fmt.Appendf(nil, "at-%d", i), DeliverAt: due, TTL: 20 * time.Minute})
		w.publish("t", client.Message{Value: fmt.Appendf(nil, "in-%d", i), Delay: 4 * time.Second})
	}
	w.publish("t", client.Message{Value: []byte("not now"), Delay: 40 * time.Minute})

	w.set(leader, by)
	eventually(t, leader+" leads nothing", func() bool { return w.leads("t")[leader]+w.leads("many")[leader] == 0 })
	eventually(t, leader+" follows", func() bool { return w.replicated("t") && w.replicated("many") })
	eventually(t, "the cluster says by how much its clock is off", func() bool {
		all, err := w.sdk.Cluster(ctxFor(t))
		must(t, err)
		return slices.ContainsFunc(all.Nodes, func(n api.NodeInfo) bool {
			return n.Name == leader && (time.Duration(n.ClockAhead)-by).Abs() <= mayDiffer
		})
	})
	for i := range 10 {
		d := w.next("t", "scheduled", held, hang)
		if i == 0 {
			if string(d.Value) != "keyed" {
				t.Fatalf("the first message is %q", d.Value)
			}
			d = w.next("t", "scheduled", held, hang)
		}
		if now := time.Now(); d.ID == "" || now.Before(due.Add(-mayDiffer)) || d.Timestamp.Before(due.Add(-mayDiffer)) || d.Timestamp.After(now.Add(mayDiffer)) {
			t.Errorf("%q was due at %s, released at %s and came at %s", d.Value, due, d.Timestamp, now)
		}
	}
	if d := w.next("t", "scheduled", held, time.Second); d.ID != "" {
		t.Errorf("%q came", d.Value)
	}
	for _, x := range []struct {
		group string
		until time.Time
	}{{"short", shortUntil}, {"nacked", nackedUntil}} {
		d := w.nextOf("t", x.group, "keyed")
		if now := time.Now(); d.Attempt != 2 || now.Before(x.until.Add(-mayDiffer)) {
			t.Errorf("group %s: attempt %d of %q at %s, before %s", x.group, d.Attempt, d.Value, now, x.until)
		}
	}
	if err := w.sdk.Ack(t.Context(), short.Receipt); err == nil {
		t.Error("a receipt counts whose lease has ended, and whose message another one has")
	}
	must(t, w.sdk.Ack(t.Context(), long.Receipt)) // an hour is not counted: it is still leased
	if again := w.publish("t", client.Message{Value: []byte("keyed"), IdempotencyKey: "k"}); !again.Duplicate || again.ID != published.ID {
		t.Errorf("published again: %+v, the first time %+v", again, published)
	}
	all, err := w.sdk.Read(t.Context(), "t", client.ReadOptions{From: "earliest", Limit: 100})
	must(t, err)
	if len(all.Messages) != 11 {
		t.Errorf("%d messages are there, want 11", len(all.Messages))
	}
	w.set(leader, 0)
	eventually(t, leader+" leads again", func() bool { return w.leads("many")[leader] > 0 })
}

// nextOf is the next delivery of one value in a group.
func (w *wrong) nextOf(topic, group, value string) client.Delivery {
	w.t.Helper()
	for {
		d := w.next(topic, group, held, hang)
		if d.ID == "" || string(d.Value) == value {
			return d
		}
	}
}

// With one node an hour ahead and another one an hour behind the third one leads, and the others follow. Two that are an hour
// ahead are the majority, and the third one is taken for wrong: leases don't end by that.
func TestClocksOfTwoOfThree(t *testing.T) {
	t.Parallel()
	w := startWrong(t, 1, nil)
	w.topic("t", 3, 0)
	eventually(t, "all replicas are there", func() bool { return w.replicated("t") })
	w.publish("t", client.Message{Value: []byte("leased")})
	leased := w.next("t", "g", held, hang)
	w.set("node-1", time.Hour)
	w.set("node-2", -time.Hour)
	eventually(t, "node-3 leads all", func() bool { return w.leads("t")["node-3"] == 3 && w.replicated("t") })
	due := time.Now().Add(3 * time.Second)
	for p := range uint32(3) {
		w.publish("t", client.Message{Value: []byte("later"), Delay: 3 * time.Second, Partition: &p})
	}
	for range 3 {
		d := w.next("t", "g", held, hang)
		if now := time.Now(); string(d.Value) != "later" || now.Before(due.Add(-mayDiffer)) {
			t.Errorf("%q came at %s, due at %s", d.Value, now, due)
		}
	}
	must(t, w.sdk.Ack(t.Context(), leased.Receipt))
	w.publish("t", client.Message{Value: []byte("leased again")})
	leased = w.next("t", "g", held, hang)
	w.set("node-2", time.Hour)
	eventually(t, "node-3 leads nothing", func() bool { return w.leads("t")["node-3"] == 0 && w.replicated("t") })
	due = time.Now().Add(2 * time.Second)
	w.publish("t", client.Message{Value: []byte("later"), Delay: 2 * time.Second})
	if d := w.next("t", "g", held, hang); string(d.Value) != "later" || time.Now().Before(due.Add(-mayDiffer)) {
		t.Errorf("%q came at %s, due at %s", d.Value, time.Now(), due)
	}
	must(t, w.sdk.Ack(t.Context(), leased.Receipt))
	w.set("node-1", 0)
	w.set("node-2", 0)
	eventually(t, "every node leads again", func() bool { return len(w.leads("t")) == 3 })
	w.publish("t", client.Message{Value: []byte("after")})
	w.next("t", "g", held, hang)
}

// A node that starts with a wrong clock is found out before it does harm.
func TestClockIsWrongFromTheStart(t *testing.T) {
	t.Parallel()
	w := startWrong(t, 1, map[string]time.Duration{"node-1": time.Hour, "node-2": 0, "node-3": 0})
	w.topic("t", 6, 0)
	due := time.Now().Round(0).Add(3 * time.Second)
	for p := range uint32(6) {
		r := w.publish("t", client.Message{Value: []byte("later"), DeliverAt: due, Partition: &p})
		if !scheduledID(r.ID) && time.Now().Before(due) {
			t.Errorf("partition %d: %+v was due at %s, and is no schedule", p, r, due)
		}
		if r := w.publish("t", client.Message{Value: []byte("in"), Delay: 3 * time.Second, Partition: &p}); r.DeliverAt.Sub(due).Abs() > hang {
			t.Errorf("partition %d: %+v was to come three seconds later than now", p, r)
		}
	}
	for range 12 {
		if d := w.next("t", "g", held, hang); d.ID == "" || time.Now().Before(due.Add(-mayDiffer)) {
			t.Errorf("%q came at %s, due at %s", d.Value, time.Now(), due)
		}
	}
	eventually(t, "node-1 leads nothing", func() bool { return w.leads("t")["node-1"] == 0 })
}

func scheduledID(id string) bool {
	parsed, err := mq.ParseMessageID(id)
	return err == nil && parsed.Scheduled
}
