package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// settings of a group that does not wait long.
const impatient = `{"max_attempts":2,"backoff":{"initial":"20ms","multiplier":1,"max":"20ms","jitter":0}}`

func nackComesAgain(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.publish("nacks", "v")
	first := one.receiveN("nacks", "g", 1, "")
	one.settle("nack", first, `,"delay":"1h","reason":"not now"`)
	if g := one.group("nacks", "g"); g.Waiting != 1 || g.InFlight != 0 || g.Lag != 1 {
		t.Errorf("after a nack with a delay: %+v", g)
	}
	if got := one.receive("nacks", "g", ""); len(got) != 0 {
		t.Errorf("it waits for an hour, and came: %+v", got)
	}
	one.publish("nacks", "w")
	second := one.receiveN("nacks", "g", 1, "")
	one.settle("nack", second, `,"delay":"30ms"`)
	third := one.receiveN("nacks", "g", 1, "")
	if third[0].Value != "w" || third[0].Attempt != 2 {
		t.Errorf("after 30ms: %+v", third[0])
	}
	// The receipt of the first attempt is late now.
	var answer struct {
		Results []struct{ Error struct{ Code string } }
	}
	one.call(207, "POST", "/v1/settle", `{"ack":["`+second[0].Receipt+`","`+third[0].Receipt+`"]}`, &answer)
	if len(answer.Results) != 2 || answer.Results[0].Error.Code != "receipt_stale" || answer.Results[1].Error.Code != "" {
		t.Errorf("a stale and a good receipt: %+v", answer)
	}
}

func deadInPlace(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.publish("poison", "v")
	one.call(201, "PUT", "/v1/topics/poison/groups/g", impatient, nil)
	for attempt := 1; attempt <= 2; attempt++ {
		got := one.receiveN("poison", "g", 1, "")
		if got[0].Attempt != attempt {
			t.Errorf("attempt %d, want %d", got[0].Attempt, attempt)
		}
		one.settle("nack", got, `,"reason":"boom"`)
	}
	if g := one.group("poison", "g"); g.Dead != 1 || g.Lag != 0 {
		t.Errorf("after two of two attempts: %+v", g)
	}
	var dead struct {
		Messages []struct {
			ID, State, Reason string
		}
	}
	one.call(200, "GET", "/v1/topics/poison/groups/g/dead", "", &dead)
	if len(dead.Messages) != 1 || dead.Messages[0].Reason != "boom" {
		t.Errorf("dead letters: %+v", dead)
	}
	one.publish("poison", "w")
	rejected := one.receiveN("poison", "g", 1, "")
	one.settle("reject", rejected, "")
	if g := one.group("poison", "g"); g.Dead != 2 {
		t.Errorf("after a reject: %+v", g)
	}
	if other := one.receiveN("poison", "other", 2, ""); len(other) != 2 {
		t.Error("dead for one group is dead for another")
	}
}

func leaseRunsOut(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.publish("leases", "v")
	one.call(201, "PUT", "/v1/topics/leases/groups/g", impatient, nil)
	one.receiveN("leases", "g", 1, "lease=100ms")
	again := one.receiveN("leases", "g", 1, "lease=100ms")
	if again[0].Attempt != 2 {
		t.Errorf("after its lease ran out: attempt %d", again[0].Attempt)
	}
	// The second and last attempt runs out too: dead, though no consumer ever said anything (museum 25).
	one.until("leases", "g", func(g group) bool { return g.Dead == 1 })
}

func extendKeeps(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.publish("extended", "v")
	got := one.receiveN("extended", "g", 1, "lease=5s")
	one.settle("extend", got, `,"lease":"1h"`)
	if again := one.receive("extended", "g", "wait=6s"); len(again) != 0 {
		t.Errorf("its lease is an hour now, and it came again: %+v", again)
	}
	one.settle("ack", got, "")
}

func lateAck(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.call(201, "PUT", "/v1/topics/late", `{"partitions":1}`, nil)
	one.call(201, "PUT", "/v1/topics/late/groups/g", `{"backoff":{"initial":"1h","multiplier":1,"max":"1h","jitter":0}}`, nil)
	one.publish("late", "v")
	got := one.receiveN("late", "g", 1, "lease=100ms")
	one.until("late", "g", func(g group) bool { return g.Waiting == 1 }) // for an hour
	one.settle("ack", got, "")                                           // nobody else has it
	if g := one.group("late", "g"); g != (group{}) {
		t.Errorf("after the late ack: %+v", g)
	}
}

func pollWakes(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	one.topic("wakes", `{"partitions":4}`)
	for i := range 10 {
		got := make(chan []message, 1)
		go func() { got <- two.tryReceive(t.Context(), "wakes", "g", "wait=20s") }()
		sent := one.publish("wakes", "v")
		if m := <-got; len(m) != 1 || m[0].ID != sent.ID {
			t.Fatalf("round %d: sent %s, got %+v", i, sent.ID, m)
		} else {
			one.settle("ack", m, "")
		}
	}
}

// tryReceive is receive for goroutines and for contexts that end: nil for anything that goes wrong.
func (c caller) tryReceive(ctx context.Context, topic, group, how string) []message {
	path, body := c.asReceive(topic, group, how)
	status, text, err := c.try(ctx, "POST", path, body)
	var answer struct{ Messages []message }
	if err != nil || status != 200 || json.Unmarshal(text, &answer) != nil {
		return nil
	}
	return answer.Messages
}

// tryPublish is publish for goroutines.
func (c caller) tryPublish(topic, value string) error {
	status, text, err := c.try(c.t.Context(), "POST", "/v1/topics/"+topic+"/messages", value)
	if err == nil && status != 201 {
		err = fmt.Errorf("publish: status %d: %s", status, text)
	}
	return err
}

// until polls a group that has nothing to deliver until its figures are as wanted.
func (c caller) until(topic, name string, want func(group) bool) {
	c.t.Helper()
	for deadline := time.Now().Add(hang); !want(c.group(topic, name)); {
		if time.Now().After(deadline) {
			c.t.Fatalf("group %s of %s stays %+v", name, topic, c.group(topic, name))
		}
		if got := c.receive(topic, name, "wait=50ms"); len(got) > 0 {
			c.t.Fatalf("group %s of %s should have nothing: %+v", name, topic, got)
		}
	}
}

// abandonedPoll leaves before the message comes: it is there for the next one, uncounted.
func abandonedPoll(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("abandoned", `{"partitions":1}`)
	one.receive("abandoned", "g", "") // makes the group
	for i := range 10 {
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			one.tryReceive(ctx, "abandoned", "g", "wait=30s&lease=1h")
		}()
		if i%2 == 0 {
			one.group("abandoned", "g") // another moment to leave at
		}
		leave()
		<-done
		one.publish("abandoned", "v")
		got := one.receiveN("abandoned", "g", 1, "") // well before the hour
		if got[0].Offset != i || got[0].Attempt != 1 {
			t.Errorf("round %d: offset %d, attempt %d", i, got[0].Offset, got[0].Attempt)
		}
		one.settle("ack", got, "")
	}
}

// racingPolls leaves while the message is on its way. An answer that was already written can't be taken
// back, so what is wanted is that nothing is gone for longer than its lease.
func racingPolls(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("racing", `{"partitions":1}`)
	one.receive("racing", "g", "")
	const rounds = 30
	missing := map[int]bool{}
	for i := range rounds {
		missing[i] = true
		ctx, leave := context.WithCancel(t.Context())
		got := make(chan []message, 1)
		go func() { got <- one.tryReceive(ctx, "racing", "g", "wait=30s&lease=1s&max=1") }()
		published := make(chan error, 1)
		go func() { published <- one.tryPublish("racing", "v") }()
		if i%3 == 0 {
			one.group("racing", "g")
		}
		leave()
		for _, m := range <-got {
			delete(missing, m.Offset)
			one.settle("ack", []message{m}, "")
		}
		must(t, <-published)
	}
	for deadline := time.Now().Add(hang); len(missing) > 0 && time.Now().Before(deadline); {
		got := one.receive("racing", "g", "wait=5s")
		for _, m := range got {
			delete(missing, m.Offset)
		}
		one.settle("ack", got, "")
	}
	if len(missing) > 0 {
		t.Errorf("swallowed: %v", missing)
	}
	one.until("racing", "g", func(g group) bool { return g == group{} })
}

func namesThatArePaths(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	sent := one.publish("intact", "v")
	for _, name := range []string{"..", "%2e%2e", "..%2f..", "%2e%2e%2fnode-1", ".", ".hidden", "%2fetc", "a%00b"} {
		for _, path := range []string{"/v1/topics/" + name, "/v1/topics/" + name + "/groups/" + name, "/v1/topics/intact/groups/" + name} {
			status, text, err := one.try(t.Context(), "DELETE", path, "")
			must(t, err)
			if status < 400 || status >= 500 {
				t.Errorf("DELETE %s: %d %s", path, status, text)
			}
		}
		status, text, err := one.try(t.Context(), "POST", "/v1/topics/"+name+"/messages", "v")
		must(t, err)
		if status < 400 || status >= 500 {
			t.Errorf("publish to %s: %d %s", name, status, text)
		}
	}
	for _, m := range []*Member{c.Coordinator(1), c.Node(1)} {
		if !exists(c.opts.Dir, m.Name()) {
			t.Errorf("the directory of %s is gone", m.Name())
		}
	}
	var m message
	one.call(200, "GET", "/v1/messages/"+sent.ID, "", &m)
}
