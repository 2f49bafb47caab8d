package cluster

import (
	"fmt"
	"testing"
)

// figure sums the series of a metric that have these labels, over all components, and says how many there are.
func figure(t *testing.T, c *Cluster, name string, labels map[string]string) (sum float64, series int) {
	t.Helper()
	families, err := c.Metrics().Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	next:
		for _, m := range f.GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			for k, v := range labels {
				if have[k] != v {
					continue next
				}
			}
			sum += m.GetGauge().GetValue()
			series++
		}
	}
	return sum, series
}

// What topics and groups have to do is in the metrics: each node tells of what it leads, and the sum is what the API says.
func TestEndWorkloadFigures(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3})
	one := via(t, c, 1)
	one.topic("work", `{"partitions":3,"replicas":3}`)
	one.topic("idle", `{"partitions":1,"replicas":3}`)
	one.call(201, "PUT", "/v1/topics/work/groups/g", `{}`, nil)
	for p := range 3 {
		for i := range 2 {
			one.call(200, "POST", "/v1/topics/work/messages/batch", fmt.Sprintf(`{"messages":[{"value":"%d","partition":%d}]}`, i, p), nil)
		}
	}
	one.call(200, "POST", "/v1/topics/work/messages/batch", `{"messages":[{"value":"later","partition":0,"delay":"24h"}]}`, nil)
	got := one.receiveN("work", "g", 6, "")
	one.settle("reject", got[:1], `,"reason":"no"`)
	one.settle("ack", got[1:3], "")
	one.settle("nack", got[3:4], `,"delay":"12h"`)
	g := map[string]string{"topic": "work", "group": "g"}
	for name, want := range map[string]float64{"lag": 3, "ready": 0, "in_flight": 2, "waiting": 1, "parked": 0, "dead": 1} {
		if sum, _ := figure(t, c, "splashdam_group_"+name, g); sum != want {
			t.Errorf("%s of the group: %v, want %v", name, sum, want)
		}
	}
	if sum, n := figure(t, c, "splashdam_group_oldest_age_seconds", g); sum <= 0 || n == 0 {
		t.Errorf("the oldest is %v s old, by %d nodes", sum, n)
	}
	for of, want := range map[string]map[string]float64{
		"work": {"messages": 6, "scheduled": 1, "partitions": 3},
		"idle": {"messages": 0, "scheduled": 0, "partitions": 1},
	} {
		for name, want := range want {
			if sum, n := figure(t, c, "splashdam_topic_"+name, map[string]string{"topic": of}); sum != want || n == 0 {
				t.Errorf("%s of topic %s: %v in %d series, want %v", name, of, sum, n, want)
			}
		}
	}
	if sum, _ := figure(t, c, "splashdam_topic_bytes", map[string]string{"topic": "work"}); sum <= 0 {
		t.Errorf("the topic has %v bytes", sum)
	}
	// A second look knows the oldest messages of the first; a settled one is the oldest no longer.
	one.settle("ack", got[4:], "")
	if sum, _ := figure(t, c, "splashdam_group_lag", g); sum != 1 {
		t.Errorf("a lag of %v, want 1", sum)
	}
	one.call(200, "DELETE", "/v1/topics/work", "", nil)
	eventually(t, "no node tells of a topic that is gone", func() bool {
		_, topics := figure(t, c, "splashdam_topic_messages", map[string]string{"topic": "work"})
		_, groups := figure(t, c, "splashdam_group_lag", g)
		return topics+groups == 0
	})
}
