package cluster

import (
	"fmt"
	"strings"
	"testing"
)

// laned publishes one message to each of the lanes, in this order, and answers their values.
func laned(c caller, topic string, lanes ...string) (out []string) {
	c.t.Helper()
	items := make([]string, len(lanes))
	for i, lane := range lanes {
		out = append(out, fmt.Sprintf("%s-%d", lane, i))
		items[i] = fmt.Sprintf(`{"value":%q,"lane":%q}`, out[i], lane)
	}
	c.call(200, "POST", "/v1/topics/"+topic+"/messages/batch", `{"messages":[`+strings.Join(items, ",")+`]}`, nil)
	return out
}

// Lanes from the wire to the wire, with what was written compressed too, and over the death of the leader: the next
// one knows the lanes of what was published before, and of what its checkpoint has behind it.
func TestEndLanesSurviveFailover(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3, Gateways: 2})
	one, two := via(t, c, 1), via(t, c, 2)
	for _, compression := range []string{"none", "zstd"} {
		one.topic("lanes-"+compression, `{"partitions":1,"replicas":3,"compression":"`+compression+`"}`)
	}
	for round := range 2 {
		for _, compression := range []string{"none", "zstd"} {
			topic := "lanes-" + compression
			v := laned(one, topic, "low", "normal", "high", "critical", "low", "critical", "background")
			group := fmt.Sprintf("strict-%d", round)
			one.call(201, "PUT", "/v1/topics/"+topic+"/groups/"+group, `{"lanes":{"mode":"strict"},"start":{"at":"latest"}}`, nil)
			w := laned(two, topic, "background", "low", "high", "critical", "critical")
			for i, m := range two.receiveN(topic, group, 5, "") {
				if want := []string{w[3], w[4], w[2], w[1], w[0]}[i]; m.Value != want {
					t.Errorf("%s: strict lanes gave %s, want %s", topic, m.Value, want)
				}
			}
			// Weighted, from the beginning: within a lane by offset, everything once.
			got := two.receiveN(topic, "weighted", len(v)+len(w), "")
			if first := got[0].Value; !strings.HasPrefix(first, "critical") {
				t.Errorf("%s: %s came first", topic, first)
			}
			last := map[string]int{}
			for _, m := range got {
				lane, _, _ := strings.Cut(m.Value, "-")
				if at, ok := last[lane]; ok && m.Offset < at {
					t.Errorf("%s: offset %d came after %d of its lane", topic, m.Offset, at)
				}
				last[lane] = m.Offset
			}
			one.settle("ack", got, "")
		}
		if round == 0 {
			leader := c.NodeNamed(one.leader("lanes-none", 0))
			must(t, leader.Kill())
			publishAnyway(t, two, "lanes-none", "normal-again")
			publishAnyway(t, two, "lanes-zstd", "normal-again")
			one.settle("ack", one.receiveN("lanes-none", "weighted", 1, ""), "")
			one.settle("ack", one.receiveN("lanes-zstd", "weighted", 1, ""), "")
		}
	}
	var g struct {
		Lag   int
		Lanes map[string]struct{ Lag int }
	}
	one.call(200, "GET", "/v1/topics/lanes-none/groups/strict-0", "", &g)
	if g.Lanes["critical"].Lag == 0 || g.Lanes["background"].Lag == 0 || g.Lag == 0 {
		t.Errorf("figures by lane: %+v", g)
	}
	one.call(422, "POST", "/v1/topics/lanes-none/messages/batch?strict=true", `{"messages":[{"value":"x","lane":"urgent"}]}`, nil)
	one.call(422, "PUT", "/v1/topics/lanes-none/groups/x", `{"lanes":{"weights":{"critical":0}}}`, nil)
}
