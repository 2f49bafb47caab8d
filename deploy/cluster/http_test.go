package cluster

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/coordinator"
	"github.com/splashdam/splashdam/lognode"
)

// hang bounds what must not hang; nothing is judged by it.
const hang = 5 * time.Minute

// start starts a cluster in a directory of the test's and stops it at the end.
func start(t *testing.T, o Options) *Cluster {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	if o.NodeConfig == nil {
		o.NodeConfig = func(_ int, cfg *lognode.Config) { cfg.BallastBytes, cfg.VolumeBytes = 1<<20, 32<<20 }
	}
	change := o.CoordinatorConfig
	o.CoordinatorConfig = func(i int, cfg *coordinator.Config) {
		cfg.Patience = time.Second
		if change != nil {
			change(i, cfg)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	c, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return c
}

// must fails the test with what went wrong.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// caller calls one gateway's HTTP API in its plainest form: what is asserted is what goes over the wire.
type caller struct {
	t   *testing.T
	url string
}

// via gives the caller of the i-th gateway, counted from 1.
func via(t *testing.T, c *Cluster, i int) caller { return caller{t, c.URLs()[i-1]} }

// message is what a receive or a read answers of one message.
type message struct {
	ID        string            `json:"id"`
	Receipt   string            `json:"receipt"`
	Partition int               `json:"partition"`
	Offset    int               `json:"offset"`
	Key       string            `json:"key"`
	Value     string            `json:"value"`
	Encoding  string            `json:"encoding"`
	Headers   map[string]string `json:"headers"`
	Attempt   int               `json:"attempt"`
}

func (m message) bytes(t *testing.T) []byte {
	t.Helper()
	if m.Encoding != "base64" {
		return []byte(m.Value)
	}
	b, err := base64.StdEncoding.DecodeString(m.Value)
	must(t, err)
	return b
}

// try sends a request and gives status and body.
func (c caller) try(ctx context.Context, method, path, body string) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	contentType := "application/json"
	if !strings.HasPrefix(body, "{") {
		contentType = "text/plain"
	}
	req.Header.Set("Content-Type", contentType)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, text, err
}

// call sends a request, wants the status and decodes the answer into out, if it is not nil.
func (c caller) call(want int, method, path, body string, out any) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), hang)
	defer cancel()
	status, text, err := c.try(ctx, method, path, body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	if status != want {
		c.t.Fatalf("%s %s: status %d, want %d: %s", method, path, status, want, text)
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			c.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
}

// topic makes a topic with the settings.
func (c caller) topic(name, settings string) {
	c.t.Helper()
	c.call(201, "PUT", "/v1/topics/"+name, settings, nil)
}

// publish publishes one text message.
func (c caller) publish(topic, value string) message {
	c.t.Helper()
	var m message
	c.call(201, "POST", "/v1/topics/"+topic+"/messages", value, &m)
	return m
}

// publishMany publishes value-0 to value-<n-1> in one batch.
func (c caller) publishMany(topic, value string, n int) {
	c.t.Helper()
	var b bytes.Buffer
	b.WriteString(`{"messages":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"value":"%s-%d","key":"k%d"}`, value, i, i)
	}
	b.WriteString(`]}`)
	var answer struct {
		Results []message `json:"results"`
		Failed  int       `json:"failed"`
	}
	c.call(200, "POST", "/v1/topics/"+topic+"/messages/batch", b.String(), &answer)
	if len(answer.Results) != n || answer.Failed != 0 {
		c.t.Fatalf("%d results, %d failed, of %d", len(answer.Results), answer.Failed, n)
	}
}

// receive receives once; how is like "max=10&wait=5s&lease=1h&encoding=base64".
func (c caller) receive(topic, group, how string) []message {
	c.t.Helper()
	path, body := c.asReceive(topic, group, how)
	var answer struct{ Messages []message }
	c.call(200, "POST", path, body, &answer)
	return answer.Messages
}

// asReceive puts what belongs into the body of a receive there.
func (c caller) asReceive(topic, group, how string) (path, body string) {
	c.t.Helper()
	query, err := url.ParseQuery(how)
	must(c.t, err)
	request := map[string]any{}
	for _, name := range []string{"wait", "lease"} {
		if v := query.Get(name); v != "" {
			request[name] = v
			query.Del(name)
		}
	}
	text, err := json.Marshal(request)
	must(c.t, err)
	return "/v1/topics/" + topic + "/groups/" + group + "/receive?" + query.Encode(), string(text)
}

// receiveN receives until n messages are there, long-polling in between, and wants no more than n.
func (c caller) receiveN(topic, group string, n int, how string) []message {
	c.t.Helper()
	var out []message
	for deadline := time.Now().Add(hang); len(out) < n && time.Now().Before(deadline); {
		out = append(out, c.receive(topic, group, fmt.Sprintf("max=%d&wait=5s&%s", n-len(out), how))...)
	}
	if len(out) != n {
		c.t.Fatalf("group %s of %s: %d messages, want %d", group, topic, len(out), n)
	}
	return out
}

// settle does one act ("ack", "nack", ...) to all messages; more is further JSON like `,"delay":"1s"`.
func (c caller) settle(act string, messages []message, more string) {
	c.t.Helper()
	receipts := make([]string, len(messages))
	for i, m := range messages {
		receipts[i] = m.Receipt
	}
	list, err := json.Marshal(receipts)
	must(c.t, err)
	c.call(200, "POST", "/v1/"+act, `{"receipts":`+string(list)+more+`}`, nil)
}

// values are the texts of messages, sorted.
func values(messages []message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Value)
	}
	slices.Sort(out)
	return out
}

// numbered is value-0 to value-<n-1>, sorted as values sorts.
func numbered(value string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s-%d", value, i))
	}
	slices.Sort(out)
	return out
}

// group is what GET of a group answers, as far as tests look.
type group struct {
	Lag      int `json:"lag"`
	Ready    int `json:"ready"`
	InFlight int `json:"in_flight"`
	Waiting  int `json:"waiting"`
	Dead     int `json:"dead"`
	Exported int `json:"exported"`
	Partial  bool
}

// group waits until all leaders answer: a gateway hears of new partitions a moment later than the one that made them.
func (c caller) group(topic, name string) (g group) {
	c.t.Helper()
	eventually(c.t, "all leaders answer for group "+name, func() bool {
		g = group{}
		c.call(200, "GET", "/v1/topics/"+topic+"/groups/"+name, "", &g)
		return !g.Partial
	})
	return g
}

// leader is the node that leads a partition.
func (c caller) leader(topic string, partition int) string {
	c.t.Helper()
	var answer struct {
		Partitions []struct{ Leader string }
	}
	c.call(200, "GET", "/v1/topics/"+topic, "", &answer)
	if partition >= len(answer.Partitions) {
		c.t.Fatalf("%s has %d partitions", topic, len(answer.Partitions))
	}
	return answer.Partitions[partition].Leader
}
