package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// keyed publishes values with keys: "a=1" is the value a=1 with the key a.
func keyed(c caller, topic string, values ...string) {
	c.t.Helper()
	items := make([]string, len(values))
	for i, v := range values {
		key, _, _ := strings.Cut(v, "=")
		lane := "normal"
		if strings.HasSuffix(v, "!") {
			lane = "critical"
		}
		items[i] = fmt.Sprintf(`{"key":%q,"value":%q,"lane":%q}`, key, v, lane)
	}
	c.call(200, "POST", "/v1/topics/"+topic+"/messages/batch", `{"messages":[`+strings.Join(items, ",")+`]}`, nil)
}

// came says what a receive got, in order.
func came(got []message) string {
	values := make([]string, len(got))
	for i, m := range got {
		values[i] = m.Value
	}
	return strings.Join(values, " ")
}

func orderOf(t *testing.T, what string, got []message, want string) {
	t.Helper()
	if c := came(got); c != want {
		t.Errorf("%s: %q came, want %q", what, c, want)
	}
}

// upTo9 receives until there are n messages, and fails if more come.
func upTo9(c caller, n int) (out []message) {
	c.t.Helper()
	for deadline := time.Now().Add(hang); len(out) < n && time.Now().Before(deadline); {
		out = append(out, c.receive("keys", "g", "max=9&wait=5s")...)
	}
	if len(out) != n {
		c.t.Fatalf("%d came: %s; want %d", len(out), came(out), n)
	}
	return out
}

// One message of a key at a time, across lanes, with retries, dead letters, a far-behind group and the death of the
// leader in between.
func TestEndOrderByKey(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3, Gateways: 2})
	one, two := via(t, c, 1), via(t, c, 2)
	const group = `{"ordering":"key","max_attempts":2,"backoff":{"initial":"0s","multiplier":1,"max":"0s","jitter":0}}`
	one.topic("keys", `{"partitions":1,"replicas":3}`)
	one.call(201, "PUT", "/v1/topics/keys/groups/g", group, nil)
	keyed(one, "keys", "a=1", "a=2!", "b=1", "b=2", "c=1!", "a=3")

	first := upTo9(one, 3)
	orderOf(t, "first", first, "c=1! a=1 b=1") // a=2 is more urgent, and waits for a=1
	var parked struct {
		Messages []struct {
			Offset, Behind int
			State          string
		}
	}
	one.call(200, "GET", "/v1/topics/keys/groups/g/messages?state=parked", "", &parked)
	if len(parked.Messages) != 3 || parked.Messages[0].Offset != 1 || parked.Messages[0].Behind != 0 || parked.Messages[0].State != "parked" {
		t.Errorf("parked: %+v", parked)
	}
	var figures struct{ Lag, Parked, Ready int }
	one.call(200, "GET", "/v1/topics/keys/groups/g", "", &figures)
	if figures.Parked != 3 || figures.Ready != 0 || figures.Lag != 6 {
		t.Errorf("figures: %+v", figures)
	}
	two.settle("ack", first[1:2], "")
	orderOf(t, "after an ack", upTo9(two, 1), "a=2!")
	two.settle("nack", first[2:], "") // b=1 again, and nothing of b before it
	again := upTo9(two, 1)
	orderOf(t, "after a nack", again, "b=1")

	leader := c.NodeNamed(one.leader("keys", 0))
	must(t, leader.Kill())
	// The next leader knows which keys are out: b=1 and a=2! still hold theirs.
	eventually(t, "the next leader takes a message", func() bool {
		status, _, err := two.try(t.Context(), "POST", "/v1/topics/keys/messages/batch",
			`{"messages":[{"key":"d","value":"d=1","idempotency_key":"d"}]}`)
		return err == nil && status == 200
	})
	orderOf(t, "after a failover", upTo9(two, 1), "d=1")
	two.settle("nack", again, "") // the last attempt: dead, and b=2 follows
	orderOf(t, "after a death", upTo9(two, 1), "b=2")

	// A group that is new is far behind: its keys are read from the journal. All comes, each key in order.
	two.call(201, "PUT", "/v1/topics/keys/groups/late", group, nil)
	last := map[string]string{}
	for n := 0; n < 7; {
		got := two.receiveN("keys", "late", 1, "")
		for _, m := range got {
			key, at, _ := strings.Cut(m.Value, "=")
			if at <= last[key] {
				t.Errorf("%s came after %s", m.Value, last[key])
			}
			last[key], n = at, n+1
		}
		two.settle("ack", got, "")
	}
	one.call(409, "PATCH", "/v1/topics/keys", `{"partitions":2}`, nil)
	one.call(200, "PATCH", "/v1/topics/keys?force=true", `{"partitions":2}`, nil)
}
