package cluster

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// read gives all messages of a topic without a group.
func (c caller) read(topic string) []message {
	c.t.Helper()
	var out struct{ Messages []message }
	c.call(200, "GET", "/v1/topics/"+topic+"/messages?limit=1000", "", &out)
	return out.Messages
}

// untilRead waits until a topic, which may not exist yet, has n messages.
func (c caller) untilRead(topic string, n int) []message {
	c.t.Helper()
	var out struct{ Messages []message }
	eventually(c.t, fmt.Sprintf("%d messages of %s", n, topic), func() bool {
		status, text, err := c.try(c.t.Context(), "GET", "/v1/topics/"+topic+"/messages?limit=1000&wait=1s", "")
		must(c.t, err)
		out.Messages = nil
		if status == 200 {
			must(c.t, json.Unmarshal(text, &out))
		}
		return len(out.Messages) >= n
	})
	return out.Messages
}

// Each death is published once to the dead letter topic, with where it comes from, and the letter stays in its group. A
// redriven one that dies again is published again; one whose topics lead in a circle goes around a few times.
func TestDeadLettersAreExportedOnce(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 1, Gateways: 2, Coordinators: 1})
	one := via(t, c, 1)
	one.topic("orders", `{"partitions":2}`)
	one.call(422, "PUT", "/v1/topics/orders/groups/g", `{"dead_letter_topic":"orders"}`, nil)
	one.call(201, "PUT", "/v1/topics/orders/groups/g", `{"dead_letter_topic":"graves","max_attempts":1}`, nil)
	sent := map[string]bool{}
	for _, v := range []string{"a", "b", "c"} {
		sent[one.publish("orders", v).ID] = true
	}
	one.settle("nack", one.receiveN("orders", "g", 3, ""), `,"reason":"boom"`)
	for _, m := range one.untilRead("graves", 3) {
		h := m.Headers
		if !sent[h["dead-letter-id"]] || h["dead-letter-topic"] != "orders" || h["dead-letter-group"] != "g" || h["dead-letter-reason"] != "boom" ||
			h["dead-letter-attempts"] != "1" || h["dead-letter-died"] == "" || h["dead-letter-first-delivery"] == "" || h["dead-letter-hops"] != "1" {
			t.Errorf("exported: %q %v", m.Value, h)
		}
		delete(sent, h["dead-letter-id"])
	}
	one.until("orders", "g", func(g group) bool { return g.Dead == 3 && g.Exported == 3 })

	var moved struct{ Matched int }
	one.call(200, "POST", "/v1/topics/orders/groups/g/redrive", `{"limit":1}`, &moved)
	one.settle("reject", one.receiveN("orders", "g", 1, ""), "")
	one.untilRead("graves", 4)
	one.until("orders", "g", func(g group) bool { return g.Dead == 3 && g.Exported == 3 })
	if n := len(one.read("graves")); n != 4 {
		t.Errorf("%d messages for 4 deaths", n)
	}
	exportsWhatIsWide(t, one)
}

// exportsWhatIsWide: as many headers as a message may have, and more bytes than the dead letter topic lets publishers use, are no
// reason to stay behind. The last of its own headers are left out, and counted.
func exportsWhatIsWide(t *testing.T, one caller) {
	t.Helper()
	one.topic("wide", `{"partitions":1}`)
	one.topic("narrow", `{"partitions":1,"max_message_bytes":100}`)
	one.call(201, "PUT", "/v1/topics/wide/groups/g", `{"dead_letter_topic":"narrow"}`, nil)
	headers := map[string]string{}
	for i := range 64 {
		headers[fmt.Sprintf("h%02d", i)] = fmt.Sprint(i)
	}
	value := strings.Repeat("x", 5000)
	body, err := json.Marshal(map[string]any{"messages": []any{map[string]any{"value": value, "headers": headers}}})
	must(t, err)
	one.call(200, "POST", "/v1/topics/wide/messages/batch", string(body), nil)
	one.settle("reject", one.receiveN("wide", "g", 1, ""), `,"reason":"too wide"`)
	m := one.untilRead("narrow", 1)[0]
	dropped, err := strconv.Atoi(m.Headers["dead-letter-headers-dropped"])
	must(t, err)
	facts := 0
	for name := range m.Headers {
		if strings.HasPrefix(name, "dead-letter-") {
			facts++
		}
	}
	if m.Value != value || len(m.Headers) != 64 || dropped+64-facts != 64 || m.Headers["dead-letter-reason"] != "too wide" {
		t.Errorf("exported with %d bytes, %d headers, %d of them facts: %v", len(m.Value), len(m.Headers), facts, m.Headers)
	}
	one.until("wide", "g", func(g group) bool { return g.Dead == 1 && g.Exported == 1 })
}

// Dead letter topics that lead in a circle move a message around 8 times in all, then it stays where it is.
func TestDeadLetterCircleEnds(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 1, Gateways: 1, Coordinators: 1})
	one := via(t, c, 1)
	for topic, next := range map[string]string{"a": "b", "b": "a"} {
		one.topic(topic, `{"partitions":1}`)
		one.call(201, "PUT", "/v1/topics/"+topic+"/groups/g", `{"dead_letter_topic":"`+next+`"}`, nil)
	}
	// Each round takes as long as dead letters are looked for, so this one comes as if it had gone around before.
	one.call(200, "POST", "/v1/topics/a/messages/batch", `{"messages":[{"value":"v","headers":{"dead-letter-hops":"6","kind":"x"}}]}`, nil)
	for i, topic := range []string{"a", "b", "a"} {
		got := one.receiveN(topic, "g", 1, "")
		if h := got[0].Headers; h["dead-letter-hops"] != []string{"6", "7", "8"}[i] || h["kind"] != "x" {
			t.Errorf("at %s, the %d. time: %v", topic, i+1, h)
		}
		one.settle("reject", got, "")
	}
	one.until("a", "g", func(g group) bool { return g.Dead == 2 && g.Exported == 2 })
	if a, b := len(one.read("a")), len(one.read("b")); a != 2 || b != 1 {
		t.Errorf("a has %d messages and b has %d, want 2 and 1", a, b)
	}
}
