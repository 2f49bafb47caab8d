package cluster

import (
	"net/http"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mq"
)

// A gateway whose clock is an hour off changes nothing of what leaders decide: schedules, leases, keys, members. What it
// measures is not off, and nothing that it remembers for a moment lasts an hour.
func TestClockOfAGateway(t *testing.T) {
	t.Parallel()
	w := startWrong(t, 2, nil)
	w.topic("t", 1, 0)
	w.topic("many", 4, 0)
	eventually(t, "all replicas are there", func() bool { return w.replicated("t") && w.replicated("many") })
	w.sdk = w.through(w.c.URLs()[0])
	other := w.through(w.c.URLs()[1])
	joined, err := w.sdk.JoinGroup(t.Context(), "many", "members", api.JoinInput{Name: "m", TTL: api.Duration(mq.MaxMemberTTL)})
	must(t, err)
	first := w.publish("t", client.Message{Value: []byte("keyed"), IdempotencyKey: "k"})
	leased := w.next("t", "g", held, hang)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		w.set("gateway-1", by)
		gatewayIsOff(w, by)
		all, err := w.sdk.Cluster(t.Context())
		must(t, err)
		for _, x := range all.Gateways {
			if off := time.Duration(x.ClockAhead); x.Name == "gateway-1" && (off-by).Abs() > mayDiffer || x.Name != "gateway-1" && off != 0 {
				t.Errorf("off by %s: %+v", by, x)
			}
		}
		if again := w.publish("t", client.Message{Value: []byte("keyed"), IdempotencyKey: "k"}); !again.Duplicate || again.ID != first.ID {
			t.Errorf("published again: %+v, the first time %+v", again, first)
		}
		must(t, w.sdk.Extend(t.Context(), leased.Receipt, held))
		_, err = w.sdk.Heartbeat(t.Context(), "many", "members", joined.Member, api.HeartbeatInput{})
		must(t, err)
		members, err := other.Members(t.Context(), "many", "members")
		must(t, err)
		if len(members.Members) != 1 {
			t.Errorf("members %+v", members)
		}
	}
	must(t, w.sdk.Ack(t.Context(), leased.Receipt))
	w.set("gateway-1", 0)
	used := map[uint32]bool{}
	eventually(t, "messages without keys go to all partitions again", func() bool {
		used[w.publish("many", client.Message{Value: []byte("x")}).Partition] = true
		return len(used) == 4
	})
}

// gatewayIsOff schedules through it, waits and reads.
func gatewayIsOff(w *wrong, by time.Duration) {
	t := w.t
	due := time.Now().Round(0).Add(5 * time.Second)
	for _, m := range []client.Message{{DeliverAt: due}, {Delay: 5 * time.Second}} {
		m.Value = []byte("soon")
		if r := w.publish("t", m); !scheduledID(r.ID) || r.DeliverAt.Before(due.Add(-mayDiffer)) || r.DeliverAt.After(time.Now().Add(mayDiffer+5*time.Second)) {
			t.Errorf("off by %s: %+v was to be due about %s", by, r, due)
		}
	}
	later := w.publish("t", client.Message{Value: []byte("later"), DeliverAt: time.Now().Add(30 * time.Minute)})
	if !scheduledID(later.ID) {
		t.Errorf("off by %s: what is due in half an hour was answered with %+v", by, later)
	} else if _, err := w.sdk.RetimeScheduled(t.Context(), later.ID, time.Now().Add(40*time.Minute)); err != nil {
		t.Errorf("off by %s: %v", by, err)
	}
	if r := w.publish("t", client.Message{Value: []byte("past"), DeliverAt: time.Now().Add(-30 * time.Minute)}); scheduledID(r.ID) {
		t.Errorf("off by %s: what was due half an hour ago was answered with %+v", by, r)
	}
	for _, want := range []string{"past", "soon", "soon"} {
		d := w.next("t", "g", held, hang)
		if now := time.Now(); string(d.Value) != want || want == "soon" && now.Before(due.Add(-mayDiffer)) {
			t.Errorf("off by %s: %q came at %s, due at %s; want %s", by, d.Value, now, due, want)
		}
		must(t, w.sdk.Ack(t.Context(), d.Receipt))
	}
	began := time.Now()
	if got, err := w.sdk.Receive(t.Context(), "t", "g", api.ReceiveRequest{Max: 1, Wait: mq.Duration(time.Second)}); err != nil || len(got) > 0 || time.Since(began) < time.Second {
		t.Errorf("off by %s: a wait of a second took %s: %v, %v", by, time.Since(began), got, err)
	}
	// What is read up to a time that is not there yet waits for what comes until then.
	until := time.Now().Add(20 * time.Minute).UTC().Format(time.RFC3339)
	began = time.Now()
	if _, err := w.sdk.Read(t.Context(), "many", client.ReadOptions{From: "latest", To: until, Wait: time.Second}); err != nil || time.Since(began) < time.Second {
		t.Errorf("off by %s: a read that waits a second ended after %s: %v", by, time.Since(began), err)
	}
}

// What a gateway sends whose clock is an hour off is signed by the time that everybody else has, retries come when they should, and a
// secret that is rotated goes on signing for as long as was said, and no longer.
func TestClockOfAGatewayThatSends(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			w := startWrong(t, 1, map[string]time.Duration{"gateway-1": by})
			w.topic("t", 1, 0)
			eventually(t, "all replicas are there", func() bool { return w.replicated("t") })
			one := via(t, w.c, 1)
			e := listen(t, func(n int, _ arrival) int {
				if n == 1 {
					return http.StatusInternalServerError
				}
				return http.StatusOK
			})
			first := one.webhook("t", "w", e.URL, `,"retry":{"initial":"2s","multiplier":1,"max":"2s","jitter":0}`).Secret
			began := time.Now()
			w.publish("t", client.Message{Value: []byte("a")})
			verified(t, first, e.wait(2)[1])
			if took := time.Since(began); took < 2*time.Second-mayDiffer || took > time.Minute {
				t.Errorf("the retry came after %s", took)
			}
			rotated, err := w.sdk.RotateSecret(t.Context(), "t", "w", api.WebhookRotation{Overlap: new(mq.Duration(10 * time.Minute))})
			must(t, err)
			if len(rotated.Secrets) != 2 || time.Until(rotated.Secrets[1].Until) > 10*time.Minute+mayDiffer || time.Until(rotated.Secrets[1].Until) < 5*time.Minute {
				t.Errorf("secrets %+v", rotated.Secrets)
			}
			one.untilWebhook("t", "w", func(x webhook) bool { return x.Lag == 0 && len(x.Secrets) == 2 })
			w.publish("t", client.Message{Value: []byte("b")})
			for _, secret := range []string{first, rotated.Secret} {
				verified(t, secret, e.wait(3)[2])
			}
		})
	}
}

// verified has the reference library look at a request, as an endpoint with a right clock would.
func verified(t *testing.T, secret string, a arrival) {
	t.Helper()
	v, err := standardwebhooks.NewWebhook(secret)
	must(t, err)
	if err := v.Verify([]byte(a.body), a.header); err != nil {
		t.Errorf("%v: %v", a.header, err)
	}
}

// A coordinator whose clock jumps, etcd and NATS in it, throws nobody out and lets another node lead when a leader dies.
func TestClockOfACoordinator(t *testing.T) {
	t.Parallel()
	w := startWrong(t, 1, nil)
	w.topic("t", 3, 0)
	eventually(t, "every node leads", func() bool { return len(w.leads("t")) == 3 && w.replicated("t") })
	// It is not heard of while a node dies and comes back.
	joined, err := w.sdk.JoinGroup(t.Context(), "t", "members", api.JoinInput{Name: "m", TTL: api.Duration(mq.MaxMemberTTL)})
	must(t, err)
	for i, by := range []time.Duration{time.Hour, -time.Hour} {
		before, err := w.sdk.Topic(t.Context(), "t")
		must(t, err)
		w.set("coordinator-1", by)
		for range 30 { // for longer than leases last, three seconds or so
			w.publish("t", client.Message{Value: []byte("on")})
			d := w.next("t", "g", held, hang)
			must(t, w.sdk.Ack(t.Context(), d.Receipt))
			w.next("t", "nobody", held, 200*time.Millisecond)
			_, err := w.sdk.Heartbeat(t.Context(), "t", "members", joined.Member, api.HeartbeatInput{})
			must(t, err)
		}
		after, err := w.sdk.Topic(t.Context(), "t")
		must(t, err)
		for p := range before.Partitions {
			if x, y := before.Partitions[p].Leader, after.Partitions[p].Leader; x != y {
				t.Errorf("off by %s: %s led partition %d, and now %s does", by, x, p, y)
			}
		}
		dead := w.c.Node(i + 1)
		must(t, dead.Kill())
		eventually(t, "others lead", func() bool { return w.leads("t")[dead.Name()] == 0 })
		for p := range uint32(3) {
			w.publish("t", client.Message{Value: []byte("on"), Partition: &p})
		}
		must(t, dead.Start(ctxFor(t)))
		eventually(t, "it leads again", func() bool { return len(w.leads("t")) == 3 && w.replicated("t") })
		for range 3 {
			d := w.next("t", "g", held, hang)
			must(t, w.sdk.Ack(t.Context(), d.Receipt))
		}
	}
}

// With one node nobody can tell whose clock is wrong: it is followed, leases and waits with it. Figures do not stop for an hour.
func TestClockOfTheOnlyNode(t *testing.T) {
	t.Parallel()
	w := &wrong{t: t, dir: t.TempDir()}
	w.set("node-1", time.Hour)
	w.c = start(t, Options{Dir: w.dir, Processes: &Processes{}})
	w.sdk = w.through(w.c.URLs()...)
	must(t, func() error { _, err := w.sdk.CreateTopic(t.Context(), "t", api.TopicInput{}); return err }())
	w.publish("t", client.Message{Value: []byte("leased")})
	leased := w.next("t", "g", held, hang)
	w.set("node-1", 0)
	for range 3 {
		w.next("t", "g", held, time.Second)
	}
	w.set("node-1", time.Hour)
	for range 3 {
		if d := w.next("t", "g", held, time.Second); d.ID != "" {
			t.Errorf("%q came again", d.Value)
		}
	}
	w.set("node-1", 0)
	must(t, w.sdk.Ack(t.Context(), leased.Receipt))
	eventually(t, "the rate is told", func() bool {
		w.publish("t", client.Message{Value: []byte("x")})
		topic, err := w.sdk.Topic(t.Context(), "t")
		must(t, err)
		return topic.PublishRate > 0
	})
}
