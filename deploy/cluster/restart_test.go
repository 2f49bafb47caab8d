package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func exists(parts ...string) bool {
	_, err := os.Stat(filepath.Join(parts...))
	return err == nil
}

// ctxFor bounds what must not hang.
func ctxFor(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	t.Cleanup(cancel)
	return ctx
}

// history publishes ten messages, acks the first five that come and fails the others once; it answers the
// values of both kinds, and the receipts of the second delivery of the failed ones.
func history(t *testing.T, one caller, topic string) (acked []string, out []message) {
	t.Helper()
	one.topic(topic, `{"partitions":2}`)
	one.publishMany(topic, "v", 10)
	got := one.receiveN(topic, "g", 10, "")
	one.settle("ack", got[:5], "")
	one.settle("nack", got[5:], `,"delay":"0s"`)
	out = one.receiveN(topic, "g", 5, "lease=5s")
	for _, m := range out {
		if m.Attempt != 2 {
			t.Errorf("%s: attempt %d after one nack", m.Value, m.Attempt)
		}
	}
	// A hand-over counts once the gateway has told the leader that its answer was written. What is asked later, of the
	// same leaders, is behind that.
	one.receiveN(topic, "after", 10, "")
	return values(got[:5]), out
}

// checkHistory says whether the group goes on where it was: what was acked stays away, what was out comes
// back as the third attempt when its lease ends.
func checkHistory(t *testing.T, one caller, topic string, acked []string, out []message) {
	t.Helper()
	got := one.receiveN(topic, "g", 5, "")
	if !slices.Equal(values(got), values(out)) {
		t.Errorf("%v was out and %v acked; %v came", values(out), acked, values(got))
	}
	for _, m := range got {
		if m.Attempt != 3 {
			t.Errorf("%s: attempt %d, want 3", m.Value, m.Attempt)
		}
	}
	one.settle("ack", got, "")
	if g := one.group(topic, "g"); g != (group{}) {
		t.Errorf("after all acks: %+v", g)
	}
	if other := one.receiveN(topic, "new", 10, ""); !slices.Equal(values(other), numbered("v", 10)) {
		t.Errorf("a new group sees %v", values(other))
	}
}

func TestEndRestartKeepsAcksAndAttempts(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	one := via(t, c, 1)
	acked, out := history(t, one, "stopped")
	must(t, c.Node(1).Restart(ctxFor(t)))
	checkHistory(t, one, "stopped", acked, out)

	acked, out = history(t, one, "killed")
	must(t, c.Node(1).Kill())
	must(t, c.Node(1).Start(ctxFor(t)))
	checkHistory(t, one, "killed", acked, out)
}

// A long poll that begins while the node is away, and ends when it is back with nothing to deliver, is answered
// as one that found nothing.
func TestEndPollOutlastsARestart(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	one := via(t, c, 1)
	one.topic("quiet", `{"partitions":2}`)
	one.receive("quiet", "g", "")
	must(t, c.Node(1).Kill())
	status := make(chan int, 1)
	go func() {
		path, body := one.asReceive("quiet", "g", "wait=4s")
		code, _, _ := one.try(t.Context(), "POST", path, body)
		status <- code
	}()
	must(t, c.Node(1).Start(ctxFor(t)))
	if code := <-status; code != 200 {
		t.Errorf("status %d", code)
	}
}

func TestEndRestartOfEverything(t *testing.T) {
	t.Parallel()
	o := Options{Dir: t.TempDir(), Nodes: 3, Coordinators: 3}
	c := start(t, o)
	acked, out := history(t, via(t, c, 1), "topic")
	urls := c.URLs()
	must(t, c.Stop(ctxFor(t)))
	c = start(t, o)
	if !slices.Equal(c.URLs(), urls) {
		t.Errorf("the gateways moved from %v to %v", urls, c.URLs())
	}
	checkHistory(t, via(t, c, 1), "topic", acked, out)
}

// A coordinator that is away stops no open segment; one that comes back is used again.
func TestEndWithoutCoordinators(t *testing.T) {
	t.Parallel()
	c := start(t, Options{})
	one := via(t, c, 1)
	one.publish("open", "before")
	one.settle("ack", one.receiveN("open", "g", 1, ""), "")
	must(t, c.Coordinator(1).Stop(ctxFor(t)))
	one.publish("open", "during")
	one.settle("ack", one.receiveN("open", "g", 1, ""), "")
	must(t, c.Coordinator(1).Start(ctxFor(t)))
	one.topic("new", `{}`)
	one.publish("new", "after")
	one.settle("ack", one.receiveN("new", "g", 1, ""), "")
}

func TestEndLeaderKilled(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3, Gateways: 2})
	one, two := via(t, c, 1), via(t, c, 2)
	one.topic("failover", `{"partitions":1,"replicas":3}`)
	const before, after = 50, 50
	var acknowledged []string
	for i := range before {
		one.publish("failover", fmt.Sprintf("v-%d", i))
	}
	acked := one.receiveN("failover", "g", 10, "")
	one.settle("ack", acked, "")

	leader := c.NodeNamed(one.leader("failover", 0))
	if leader == nil {
		t.Fatal("the partition has no leader")
	}
	must(t, leader.Kill())
	for i := before; i < before+after; i++ {
		publishAnyway(t, two, "failover", fmt.Sprintf("v-%d", i))
	}
	if now := two.leader("failover", 0); now == leader.Name() || now == "" {
		t.Errorf("the leader is %q, and %s was killed", now, leader.Name())
	}
	for i := range before + after {
		acknowledged = append(acknowledged, fmt.Sprintf("v-%d", i))
	}
	missing := map[string]bool{}
	for _, v := range acknowledged {
		missing[v] = true
	}
	offsets := map[int]string{}
	var read struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/failover/messages?partition=0&from=earliest&limit=1000", "", &read)
	for _, m := range read.Messages {
		if was, twice := offsets[m.Offset]; twice {
			t.Errorf("offset %d is %s and %s", m.Offset, was, m.Value)
		}
		offsets[m.Offset] = m.Value
		delete(missing, m.Value)
	}
	if len(missing) > 0 {
		t.Errorf("acknowledged and gone: %v", missing)
	}
	// Acked stays acked, through the failover too.
	rest := one.receiveN("failover", "g", len(read.Messages)-len(acked), "")
	for _, m := range rest {
		if slices.ContainsFunc(acked, func(a message) bool { return a.Offset == m.Offset }) {
			t.Errorf("offset %d was acked before the failover and came again", m.Offset)
		}
	}
	must(t, leader.Start(ctxFor(t)))
	one.publish("failover", "last")
}

// publishAnyway repeats a publish until it is acknowledged, as a client would that wants no loss; with a key, its beginning, so
// that it is stored once.
func publishAnyway(t *testing.T, c caller, topic, value string) {
	t.Helper()
	eventually(t, "a publish is acknowledged", func() bool {
		status, _, text := publishKeyed(t, c, topic, value[:min(len(value), 50)], value)
		if status != 200 && status != 201 && status != 503 && status != 504 {
			t.Fatalf("publish: status %d: %s", status, text)
		}
		return status == 200 || status == 201
	})
}
