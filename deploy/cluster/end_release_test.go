package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/client"
)

// TestRelease runs what giving back promises on one node with two gateways; each part has its own topic.
func TestRelease(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Gateways: 2})
	for name, part := range map[string]func(*testing.T, *Cluster){
		"a release is ready at once and not counted": releaseIsNotCounted,
		"in order by key it goes in front":           releaseInOrder,
		"museum 26: who stops gives back (events)":   func(t *testing.T, c *Cluster) { stopGivesBack(t, c, "events", false) },
		"museum 26: who stops gives back (socket)":   func(t *testing.T, c *Cluster) { stopGivesBack(t, c, "socket", true) },
	} {
		t.Run(name, func(t *testing.T) { part(t, c) })
	}
}

func releaseIsNotCounted(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	sent := one.publish("back", "v")
	one.call(201, "PUT", "/v1/topics/back/groups/g", impatient, nil) // two attempts
	for range 3 {
		got := one.receiveN("back", "g", 1, "")
		if got[0].Attempt != 1 {
			t.Fatalf("attempt %d", got[0].Attempt)
		}
		two.settle("release", got, "")
	}
	var trace struct{ Events []struct{ Type string } }
	one.call(200, "GET", "/v1/messages/"+sent.ID+"/trace", "", &trace)
	types := fmt.Sprint(trace.Events)
	if strings.Count(types, "RETURNED") != 3 || strings.Contains(types, "REDELIVERED") {
		t.Errorf("traced as %s", types)
	}
}

func releaseInOrder(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("front", `{"partitions":1}`)
	one.call(201, "PUT", "/v1/topics/front/groups/g", `{"ordering":"key"}`, nil)
	one.call(200, "POST", "/v1/topics/front/messages/batch", `{"messages":[{"value":"1","key":"a"},{"value":"2","key":"a"},{"value":"3","key":"b"}]}`, nil)
	one.settle("release", one.receiveN("front", "g", 2, ""), "")
	again := one.receiveN("front", "g", 2, "")
	if again[0].Value != "1" || again[1].Value != "3" || again[0].Attempt != 1 {
		t.Errorf("after the release came %+v", again)
	}
}

// stopGivesBack has a consumer stop under a backlog, each time with messages on their way to it: nothing stays out, and
// what it did not see has no attempt.
func stopGivesBack(t *testing.T, c *Cluster, topic string, socket bool) {
	one := via(t, c, 1)
	one.topic(topic, `{"partitions":2}`)
	one.publishMany(topic, "v", 100)
	one.call(201, "PUT", "/v1/topics/"+topic+"/groups/g", `{"lease":"1h","max_attempts":2}`, nil)
	sdk, err := client.New(client.Options{Servers: []string{one.url}})
	must(t, err)
	defer sdk.Close()
	for range 3 {
		ctx, stop := context.WithCancel(t.Context())
		all := sdk.Subscribe(ctx, topic, "g", client.SubscribeOptions{MaxInFlight: 50})
		if socket {
			s, err := sdk.Socket(ctx)
			must(t, err)
			defer s.Close()
			all = s.Subscribe(ctx, topic, "g", client.SubscribeOptions{MaxInFlight: 50})
		}
		n := 0
		for d, err := range all {
			must(t, err)
			if d.Attempt != 1 {
				t.Fatalf("attempt %d", d.Attempt)
			}
			must(t, sdk.Ack(ctx, d.Receipt))
			if n++; n == 5 {
				stop()
			}
		}
		stop()
		if n != 5 {
			t.Errorf("%d came, the context ended at the fifth", n)
		}
	}
	if g := one.group(topic, "g"); g.InFlight != 0 || g.Lag != 85 || g.Waiting != 0 {
		t.Errorf("after three runs of five: %+v", g)
	}
	for _, m := range one.receiveN(topic, "g", 85, "") {
		if m.Attempt != 1 {
			t.Fatalf("%s has used up an attempt that nobody saw", m.ID)
		}
	}
}
