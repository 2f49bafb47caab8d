package cluster

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// TestEndToEnd runs the common ways of a message on one node with two gateways; each part has its own topic.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Gateways: 2})
	for name, part := range map[string]func(*testing.T, *Cluster){
		"publish, receive, ack, trace":               publishReceiveAckTrace,
		"a batch comes back whole":                   batchComesBack,
		"values come back byte for byte":             valuesComeBack,
		"museum 43: two groups see everything":       twoGroups,
		"nack waits and comes again":                 nackComesAgain,
		"max attempts make it dead in place":         deadInPlace,
		"a lease that runs out is a failed attempt":  leaseRunsOut,
		"extend keeps a message":                     extendKeeps,
		"a late ack is honoured until it is not":     lateAck,
		"a publish elsewhere wakes a long poll":      pollWakes,
		"museum 41: an abandoned poll keeps nothing": abandonedPoll,
		"museum 41: polls abandoned while it comes":  racingPolls,
		"museum 40: names that are paths":            namesThatArePaths,
		"reading needs no group":                     readWithoutGroup,
	} {
		t.Run(name, func(t *testing.T) { part(t, c) })
	}
}

func publishReceiveAckTrace(t *testing.T, c *Cluster) {
	one, two := via(t, c, 1), via(t, c, 2)
	sent := one.publish("orders", "hello")
	got := two.receiveN("orders", "billing", 1, "")[0]
	if got.ID != sent.ID || got.Value != "hello" || got.Attempt != 1 || got.Offset != 0 || got.Receipt == "" {
		t.Errorf("sent %+v, got %+v", sent, got)
	}
	// The receipt alone as text, through the other gateway.
	one.call(200, "POST", "/v1/ack", got.Receipt, nil)
	one.call(200, "POST", "/v1/ack", got.Receipt, nil) // twice is fine
	if again := two.receive("orders", "billing", ""); len(again) != 0 {
		t.Errorf("acked, and came again: %+v", again)
	}
	var trace struct {
		ID     string
		Topic  string
		Events []struct{ Type, Group string }
		Groups []struct {
			Group, State string
			Attempts     int
		}
	}
	two.call(200, "GET", "/v1/messages/"+sent.ID+"/trace", "", &trace)
	at := -1
	for _, want := range []string{"PUBLISHED", "DELIVERED", "ACKNOWLEDGED"} {
		i := slices.IndexFunc(trace.Events, func(e struct{ Type, Group string }) bool { return e.Type == want })
		if i <= at {
			t.Errorf("%s is event %d, after %d is wanted: %+v", want, i, at, trace.Events)
		}
		at = i
	}
	if trace.ID != sent.ID || trace.Topic != "orders" || len(trace.Groups) != 1 ||
		trace.Groups[0].Group != "billing" || trace.Groups[0].State != "acked" || trace.Groups[0].Attempts != 1 {
		t.Errorf("trace: %+v", trace)
	}
}

func batchComesBack(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	const n = 1000
	one.publishMany("batches", "v", n)
	got := one.receiveN("batches", "g", n, "")
	if !slices.Equal(values(got), numbered("v", n)) {
		t.Error("other values came back than were sent")
	}
	seen := map[[2]int]bool{}
	for _, m := range got {
		if at := [2]int{m.Partition, m.Offset}; seen[at] {
			t.Errorf("partition and offset %v twice", at)
		} else {
			seen[at] = true
		}
	}
	one.settle("ack", got, "")
	if g := one.group("batches", "g"); g != (group{}) {
		t.Errorf("all is acked, and the group holds %+v", g)
	}
}

func valuesComeBack(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, value := range [][]byte{{}, {0}, all, []byte("ünï\x00cödé"), bytes.Repeat([]byte("x"), 1<<20), []byte("\n\r\n")} {
		topic := fmt.Sprintf("values-%d", i)
		one.publish(topic, string(value)) // the raw form
		item, err := json.Marshal(map[string]any{"messages": []any{map[string]string{
			"value": base64.StdEncoding.EncodeToString(value), "encoding": "base64"}}})
		must(t, err)
		one.call(200, "POST", "/v1/topics/"+topic+"/messages/batch", string(item), nil)
		for _, m := range one.receiveN(topic, "g", 2, "") {
			if !bytes.Equal(m.bytes(t), value) {
				t.Errorf("value %d: %d bytes came back, %d were sent, or others", i, len(m.bytes(t)), len(value))
			}
		}
		for _, m := range one.receiveN(topic, "forced", 2, "encoding=base64") {
			if m.Encoding != "base64" || !bytes.Equal(m.bytes(t), value) {
				t.Errorf("value %d as base64: encoding %q, other bytes", i, m.Encoding)
			}
		}
	}
}

func twoGroups(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.publishMany("two", "v", 20)
	first := one.receiveN("two", "a", 20, "") // and holds them
	second := via(t, c, 2).receiveN("two", "b", 20, "")
	if !slices.Equal(values(first), numbered("v", 20)) || !slices.Equal(values(second), numbered("v", 20)) {
		t.Error("a group does not see everything")
	}
	one.settle("ack", first, "")
	if a, b := one.group("two", "a"), one.group("two", "b"); a.Lag != 0 || b.Lag != 20 || b.InFlight != 20 {
		t.Errorf("after the acks of a: a %+v, b %+v", a, b)
	}
}

func readWithoutGroup(t *testing.T, c *Cluster) {
	one := via(t, c, 1)
	one.topic("history", `{"partitions":1}`)
	one.publishMany("history", "v", 5)
	one.settle("ack", one.receiveN("history", "g", 5, ""), "")
	var answer struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/history/messages?partition=0&from=1&limit=3", "", &answer)
	if got := values(answer.Messages); !slices.Equal(got, []string{"v-1", "v-2", "v-3"}) {
		t.Errorf("from 1, three: %v", got)
	}
	var single message
	one.call(200, "GET", "/v1/messages/"+answer.Messages[0].ID, "", &single)
	if single.Value != "v-1" {
		t.Errorf("one message by its id: %+v", single)
	}
}
