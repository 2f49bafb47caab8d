package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// publishKeyed is a raw publish with an Idempotency-Key.
func publishKeyed(t *testing.T, c caller, topic, key, value string) (int, api.Published, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+"/v1/topics/"+topic+"/messages", strings.NewReader(value))
	must(t, err)
	request.Header.Set("Idempotency-Key", key)
	answer, err := http.DefaultClient.Do(request)
	must(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(t, err)
	var out api.Published
	if answer.StatusCode < 300 {
		must(t, json.Unmarshal(body, &out))
	}
	return answer.StatusCode, out, string(body)
}

func TestEndIdempotencyKeys(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Gateways: 2})
	one, two := via(t, c, 1), via(t, c, 2)
	status, first, text := publishKeyed(t, one, "paid", "order-1", "10 EUR")
	if status != 201 || first.Duplicate {
		t.Fatal(status, text)
	}
	// Again, through the other gateway, which must choose the same partition.
	status, again, text := publishKeyed(t, two, "paid", "order-1", "10 EUR")
	first.Duplicate = true
	if status != 200 || again != first {
		t.Errorf("%d %s, want 200 and %+v", status, text, first)
	}
	if status, _, text = publishKeyed(t, two, "paid", "order-1", "11 EUR"); status != 409 || !strings.Contains(text, "idempotency_conflict") ||
		!strings.Contains(text, first.ID) {
		t.Errorf("other content: %d %s", status, text)
	}
	batchWithKeys(t, one)
	linesWithKeys(t, two)
	var topic api.Topic
	one.call(200, "GET", "/v1/topics/paid", "", &topic)
	keys := uint64(0)
	for _, p := range topic.Partitions {
		if keys += p.Idempotency.Keys; p.Idempotency.Keys > 0 && p.Idempotency.Oldest.IsZero() {
			t.Errorf("partition %d: %+v", p.Partition, p.Idempotency)
		}
	}
	if keys != 4 || topic.Idempotency.Keys != 1_000_000 || topic.Idempotency.Time != api.Duration(10*time.Minute) {
		t.Errorf("%d keys, window %+v", keys, topic.Idempotency)
	}
}

// batchWithKeys: in one batch the second message with a key is a duplicate of the first, and what is new keeps its order.
func batchWithKeys(t *testing.T, one caller) {
	t.Helper()
	var answer api.PublishBatchAnswer
	one.call(207, "POST", "/v1/topics/paid/messages/batch", `{"messages":[
		{"value":"a","partition":0,"idempotency_key":"a"}, {"value":"plain","partition":0},
		{"value":"a","partition":0,"idempotency_key":"a"}, {"value":"b","partition":0,"idempotency_key":"b"},
		{"value":"other","partition":0,"idempotency_key":"a"}]}`, &answer)
	r := answer.Results
	if answer.Failed != 1 || r[2].ID != r[0].ID || !r[2].Duplicate || r[0].Duplicate || r[1].Offset != r[0].Offset+1 ||
		r[3].Offset != r[1].Offset+1 || r[4].Error == nil || r[4].Error.Code != mqerr.IdempotencyConflict.String() {
		t.Errorf("%+v", answer)
	}
	var runs api.PublishRunsAnswer
	one.call(200, "POST", "/v1/topics/paid/messages/batch?results=runs", `{"messages":[
		{"value":"x","partition":0}, {"value":"a","partition":0,"idempotency_key":"a"}, {"value":"y","partition":0}]}`, &runs)
	if len(runs.Runs) != 3 || runs.Runs[1].ID != r[0].ID || !runs.Runs[1].Duplicate || *runs.Runs[2].FirstOffset != *runs.Runs[0].FirstOffset+1 {
		t.Errorf("%+v", runs)
	}
}

func linesWithKeys(t *testing.T, c caller) {
	t.Helper()
	line := `{"value":"n","idempotency_key":"line"}` + "\n"
	answer, err := http.Post(c.url+"/v1/topics/paid/messages/batch", "application/x-ndjson", strings.NewReader(line+line))
	must(t, err)
	defer answer.Body.Close()
	var got []api.PublishResult
	for lines := json.NewDecoder(answer.Body); lines.More(); {
		var r api.PublishResult
		must(t, lines.Decode(&r))
		got = append(got, r)
	}
	if len(got) != 2 || got[0].ID == "" || got[0].Duplicate || got[1].ID != got[0].ID || !got[1].Duplicate {
		t.Errorf("%+v", got)
	}
}

// TestMuseum16ARetryWithAKeyStoresOnce: publishers whose every message has a key repeat what is lost, while the leader of
// their partition is killed under them, and again when the next one is. Each message is there exactly once.
func TestMuseum16ARetryWithAKeyStoresOnce(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3, Gateways: 2})
	one := via(t, c, 1)
	one.topic("once", `{"partitions":1,"replicas":3}`)
	sdk, err := client.New(client.Options{Servers: c.URLs()})
	must(t, err)
	defer sdk.Close()
	const publishers, each = 4, 60
	answered := make(chan struct{}, publishers*each) // one for each message that was answered
	var work sync.WaitGroup
	for p := range publishers {
		work.Go(func() {
			for i := range each {
				value := fmt.Sprintf("%d-%d", p, i)
				if _, err := sdk.Publish(t.Context(), "once", client.Message{Value: []byte(value), IdempotencyKey: value}); err != nil {
					t.Errorf("%s: %v", value, err)
				}
				answered <- struct{}{}
			}
		})
	}
	for i := range publishers * each {
		<-answered
		if i%100 != 50 {
			continue
		}
		if leader := c.NodeNamed(one.leader("once", 0)); leader != nil {
			must(t, leader.Kill())
			must(t, leader.Start(ctxFor(t)))
		}
	}
	work.Wait()
	checkOnce(t, one, publishers, each)
	// What was acknowledged before all this is known still, after a restart of everything.
	for i := range 3 {
		must(t, c.Node(i+1).Restart(ctxFor(t)))
	}
	for p := range publishers {
		value := fmt.Sprintf("%d-0", p)
		if out, err := sdk.Publish(t.Context(), "once", client.Message{Value: []byte(value), IdempotencyKey: value}); err != nil || !out.Duplicate {
			t.Errorf("%s again: %+v %v", value, out, err)
		}
	}
	checkOnce(t, one, publishers, each)
}

func checkOnce(t *testing.T, one caller, publishers, each int) {
	t.Helper()
	var read struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/once/messages?partition=0&from=earliest&limit=1000", "", &read)
	var got, want []string
	for _, m := range read.Messages {
		got = append(got, m.Value)
	}
	for p := range publishers {
		for i := range each {
			want = append(want, fmt.Sprintf("%d-%d", p, i))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d messages are there, want %d: %v", len(got), len(want), got)
	}
}
