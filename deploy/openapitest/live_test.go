package openapitest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/deploy/cluster"
	"github.com/splashdam/splashdam/gateway"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// live is a cluster with a client whose traffic is held against the document.
type live struct {
	t    *testing.T
	ctx  context.Context
	url  string
	http *http.Client
	c    *client.Client
}

func newLive(t *testing.T, configure ...func(int, *gateway.Config)) *live {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	o := cluster.Options{Dir: t.TempDir()}
	for _, f := range configure {
		o.GatewayConfig = f
	}
	cl, err := cluster.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := New(http.DefaultTransport.(*http.Transport).Clone(), func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	h := &http.Client{Transport: tr}
	c, err := client.New(client.Options{Servers: cl.URLs(), HTTP: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		stop, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := cl.Stop(stop); err != nil {
			t.Error(err)
		}
	})
	return &live{t, ctx, cl.URLs()[0], h, c}
}

func (l *live) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// call sends what the SDK does not: want is the status.
func (l *live) call(want int, method, path, body string) {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.ctx, method, l.url+path, bytes.NewReader([]byte(body)))
	l.must(err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := l.http.Do(r)
	l.must(err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	l.must(err)
	if res.StatusCode != want {
		l.t.Errorf("%s %s: status %d, want %d: %s", method, path, res.StatusCode, want, got)
	}
}

// What a user does in the order of a user's day, against a real cluster: each request and answer must be what the
// document says.
func TestRealTrafficFitsTheDocument(t *testing.T) {
	l := newLive(t)
	partitions := uint32(2)
	_, err := l.c.CreateTopic(l.ctx, "orders", api.TopicInput{Partitions: &partitions})
	l.must(err)
	one, err := l.c.Publish(l.ctx, "orders", client.Message{Key: client.Key("ada"), Value: []byte("hello"), ContentType: "text/plain"})
	l.must(err)
	_, err = l.c.PublishBatch(l.ctx, "orders", []client.Message{{Value: []byte("a")}, {Value: []byte{0, 255}}, {Value: nil}})
	l.must(err)
	l.call(207, "POST", "/v1/topics/orders/messages/batch", `{"messages":[{"value":"ok"},{"value":"?","encoding":"base64"}]}`)
	l.call(200, "POST", "/v1/topics/orders/messages/batch?results=runs", `{"messages":[{"value":"r"}]}`)

	_, err = l.c.CreateGroup(l.ctx, "orders", "billing", api.GroupInput{})
	l.must(err)
	got, err := l.c.Receive(l.ctx, "orders", "billing", api.ReceiveRequest{Max: 100})
	l.must(err)
	if len(got) < 4 {
		t.Fatalf("received %d messages", len(got))
	}
	l.must(l.c.Ack(l.ctx, got[0].Receipt))
	l.must(l.c.Nack(l.ctx, got[1].Receipt, nil, "not now"))
	l.must(l.c.Reject(l.ctx, got[2].Receipt, "never"))
	l.must(l.c.Extend(l.ctx, got[3].Receipt, time.Minute))
	l.must(l.c.Release(l.ctx, got[3].Receipt))
	l.call(409, "POST", "/v1/nack", `{"receipt":"`+got[0].Receipt+`"}`)
	l.call(400, "POST", "/v1/ack", `{"receipt":"forged"}`)

	for _, path := range []string{"/v1/topics", "/v1/topics/orders", "/v1/topics/orders/groups", "/v1/topics/orders/groups/billing",
		"/v1/topics/orders/groups/billing/messages?state=leased", "/v1/topics/orders/groups/billing/dead",
		"/v1/topics/orders/messages?from=earliest&limit=2", "/v1/messages/" + one.ID, "/v1/messages/" + one.ID + "/trace",
		"/v1/messages/" + one.ID + "/explain?group=billing",
		"/v1/cluster", "/livez", "/readyz"} {
		l.call(200, "GET", path, "")
	}
	l.call(200, "PATCH", "/v1/topics/orders", `{"retention":{"time":"48h"}}`)
	l.call(200, "POST", "/v1/topics/orders/groups/billing/pause", "")
	l.call(200, "POST", "/v1/topics/orders/groups/billing/resume", "")
	l.call(200, "POST", "/v1/nodes/node-1/drain", "")
	l.call(200, "DELETE", "/v1/nodes/node-1/drain", "")
	l.call(503, "POST", "/v1/topics/orders/partitions/0/move-leader", "") // there is no other node

	const members = "/v1/topics/orders/groups/workers/members"
	l.call(201, "POST", members, `{"name":"ada","zone":"z1","ttl":"1m"}`)
	l.call(201, "POST", members, "")
	l.call(200, "POST", members+"/ada/heartbeat?wait=100ms", `{"generation":1}`)
	l.call(200, "POST", "/v1/topics/orders/groups/workers/receive", `{"member":"ada","max":1}`)
	l.call(409, "POST", "/v1/topics/orders/groups/workers/receive", "")
	l.call(200, "GET", members, "")
	l.call(204, "DELETE", members+"/ada", "")
	l.call(409, "POST", "/v1/topics/orders/groups/billing/members", "")
	l.call(422, "POST", members, `{"ttl":"1s"}`)

	l.call(404, "GET", "/v1/topics/none", "")
	l.call(422, "PUT", "/v1/topics/bad", `{"partitions":0}`)
	l.call(400, "PUT", "/v1/topics/bad", `{"partitions":`)
	l.call(416, "GET", "/v1/topics/orders/messages?partition=0&from=999", "")
	l.call(400, "GET", "/v1/messages/"+strings.Repeat("A", 6), "")
	l.call(200, "DELETE", "/v1/topics/orders/groups/billing?dry_run=true", "")
	l.call(200, "DELETE", "/v1/topics/orders/groups/billing", "")
	l.call(200, "DELETE", "/v1/topics/orders", "")
}
