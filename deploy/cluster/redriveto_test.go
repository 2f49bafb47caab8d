package cluster

import (
	"fmt"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// deadCount is the answer of a redrive, as far as it matters here.
type deadCount struct {
	DryRun   bool `json:"dry_run"`
	Messages int
	To       string
	More     bool
}

// Dead letters that are redriven to another topic are there once each, however many calls do it at the same time, and gone from
// their group. It is refused where nobody would read them (museum 30).
func TestMuseum30RedriveToATopicThatIsRead(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 1, Gateways: 2, Coordinators: 1})
	one, two := via(t, c, 1), via(t, c, 2)
	one.topic("orders", `{"partitions":2}`)
	one.topic("hand", `{"partitions":2}`)
	one.call(201, "PUT", "/v1/topics/orders/groups/g", `{"max_attempts":1}`, nil)
	const redrive = "/v1/topics/orders/groups/g/redrive"
	one.call(404, "POST", redrive, `{"to":"nowhere"}`, nil)
	one.call(422, "POST", redrive, `{"to":"hand"}`, nil) // nobody reads it
	one.call(422, "POST", redrive, `{"to":"orders"}`, nil)
	one.call(422, "POST", redrive, `{"to":""}`, nil)
	one.call(201, "PUT", "/v1/topics/hand/groups/people", `{}`, nil)

	const n = 30
	for i := range n {
		key := "odd"
		if i%2 == 0 {
			key = "even"
		}
		one.call(200, "POST", "/v1/topics/orders/messages/batch", fmt.Sprintf(`{"messages":[{"value":"%d","key":%q,"headers":{"kind":"x"}}]}`, i, key), nil)
	}
	one.settle("reject", one.receiveN("orders", "g", n, ""), `,"reason":"boom"`)

	var listed struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/orders/groups/g/dead?key="+url.QueryEscape("even"), "", &listed)
	if len(listed.Messages) != n/2 {
		t.Errorf("%d dead letters have the key, want %d", len(listed.Messages), n/2)
	}
	one.call(200, "GET", "/v1/topics/orders/groups/g/dead?key=none", "", &listed)
	if len(listed.Messages) != 0 {
		t.Errorf("%d dead letters of no key", len(listed.Messages))
	}

	var got deadCount
	one.call(200, "POST", redrive+"?dry_run=true", `{"to":"hand"}`, &got)
	if !got.DryRun || got.Messages != n || got.To != "hand" || len(one.read("hand")) != 0 {
		t.Errorf("a dry run: %+v, and %d are there", got, len(one.read("hand")))
	}
	got = deadCount{}
	one.call(200, "POST", redrive, `{"to":"hand","filter":{"key":"even"},"limit":3}`, &got)
	if got.DryRun || got.Messages != 3 || !got.More {
		t.Errorf("three: %+v", got)
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			_, _, err := []caller{one, two}[i%2].try(t.Context(), "POST", redrive, `{"to":"hand"}`)
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	there := one.read("hand")
	var offsets []string
	for _, m := range there {
		if h := m.Headers; h["dead-letter-reason"] != "boom" || h["dead-letter-group"] != "g" || h["dead-letter-topic"] != "orders" || h["kind"] != "x" {
			t.Errorf("%q came with %v", m.Value, h)
		}
		offsets = append(offsets, m.Headers["dead-letter-id"])
	}
	slices.Sort(offsets)
	if len(there) != n || len(slices.Compact(offsets)) != n {
		t.Errorf("%d messages for %d deaths", len(there), n)
	}
	one.until("orders", "g", func(g group) bool { return g.Dead == 0 })
	if got := one.receiveN("hand", "people", n, ""); len(got) != n {
		t.Errorf("the readers got %d", len(got))
	}
	var trace struct {
		Events []struct{ Type string }
	}
	one.call(200, "GET", "/v1/messages/"+there[0].Headers["dead-letter-id"]+"/trace", "", &trace)
	var types []string
	for _, e := range trace.Events {
		types = append(types, e.Type)
	}
	if !slices.Contains(types, "DEAD_EXPORTED") || !slices.Contains(types, "DEAD_REMOVED") {
		t.Errorf("its trace: %v", types)
	}
}

// With a rate they are scheduled where they go: each has its time.
func TestRedriveToATopicAtARate(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 1, Gateways: 1, Coordinators: 1})
	one := via(t, c, 1)
	one.topic("orders", `{"partitions":1}`)
	one.topic("hand", `{"partitions":1}`)
	one.call(201, "PUT", "/v1/topics/orders/groups/g", `{}`, nil)
	one.call(201, "PUT", "/v1/topics/hand/groups/people", `{}`, nil)
	one.publishMany("orders", "v", 5)
	one.settle("reject", one.receiveN("orders", "g", 5, ""), "")
	var got deadCount
	one.call(200, "POST", "/v1/topics/orders/groups/g/redrive", `{"to":"hand","rate":0.01}`, &got) // one in 100 s
	var waits struct{ Scheduled []message }
	one.call(200, "GET", "/v1/topics/hand/scheduled", "", &waits)
	if got.Messages != 5 || len(one.read("hand")) != 1 || len(waits.Scheduled) != 4 {
		t.Errorf("%+v: %d are there, %d wait", got, len(one.read("hand")), len(waits.Scheduled))
	}
}
