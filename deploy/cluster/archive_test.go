package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode"
	"github.com/splashdam/splashdam/shared/mq"
)

// archivedMessage is a message with what reads by time are compared by.
type archivedMessage struct {
	ID        string
	Offset    int
	Value     string
	Timestamp time.Time
}

// readAll reads page after page.
func readAll(one caller, query string) (out []archivedMessage) {
	one.t.Helper()
	path := "/v1/topics/old/messages?limit=7&" + query
	for {
		var page struct {
			Messages   []archivedMessage
			NextCursor string `json:"next_cursor"`
			AtEnd      bool   `json:"at_end"`
		}
		one.call(200, "GET", path, "", &page)
		out = append(out, page.Messages...)
		if page.AtEnd || page.NextCursor == "" {
			return out
		}
		path = "/v1/topics/old/messages?limit=7&cursor=" + url.QueryEscape(page.NextCursor)
	}
}

// eventually asks until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// Retention removes what is in the archive. While the bucket is down it removes nothing; then all can be read as before, both
// ways and by time, by the next leader too; what is damaged in the bucket is an error and nothing else.
func TestEndArchive(t *testing.T) {
	t.Parallel()
	bucket := filepath.Join(t.TempDir(), "bucket")
	c := start(t, Options{NodeConfig: func(_ int, cfg *lognode.Config) {
		cfg.BallastBytes, cfg.VolumeBytes, cfg.SegmentBytes, cfg.ArchiveURL = 1<<20, 32<<20, 1<<20, "file://"+bucket
	}})
	one := via(t, c, 1)
	must(t, os.Rename(bucket, bucket+".away"))
	must(t, os.WriteFile(bucket, nil, 0o600)) // the bucket is down
	one.topic("old", `{"partitions":1,"retention":{"bytes":1048576,"keep_unsettled":false},"archive":true}`)
	value := func(i int) string { return fmt.Sprintf("%d-", i) + strings.Repeat(string(rune('a'+i%26)), 100<<10) }
	look := func() (first, segments int) {
		var topic struct {
			Partitions []struct {
				First    int `json:"first_offset"`
				Segments int
			}
		}
		one.call(200, "GET", "/v1/topics/old", "", &topic)
		return topic.Partitions[0].First, topic.Partitions[0].Segments
	}
	first := one.publish("old", value(0))
	one.settle("ack", one.receiveN("old", "g", 1, ""), "")
	later := scheduleOne(t, one, value(1))
	n := 2
	eventually(t, "segments are sealed", func() bool {
		one.publish("old", value(n))
		n++
		_, segments := look()
		return segments >= 4
	})
	eventually(t, "uploads fail", func() bool { return gauge(t, c, "splashdam_partition_archive_errors_total") > 0 })
	if from, _ := look(); from != 0 {
		t.Fatalf("the first offset is %d and the bucket is down", from)
	}
	one.call(503, "GET", "/v1/topics/old/messages?include_archived=true&limit=1", "", nil)
	must(t, os.Remove(bucket))
	must(t, os.Rename(bucket+".away", bucket))
	eventually(t, "retention removes", func() bool { from, _ := look(); return from > 0 })
	one.call(410, "GET", "/v1/topics/old/messages?partition=0&from=0", "", nil)
	readBack(t, one, n, value)
	byID(t, one, first, value(0), "PUBLISHED", "REPLICATED node-1", "DELIVERED g", "ACKNOWLEDGED g")
	ofSchedule := []string{"SCHEDULED", "RELEASED", "REPLICATED node-1", "DELIVERED g", "ACKNOWLEDGED g"}
	byID(t, one, later, value(1), ofSchedule...)
	n = readOn(t, one, n, value)

	restartNode(t, c)
	readBack(t, one, n, value)
	byID(t, one, later, value(1), ofSchedule...) // by a leader that has not seen its release
	one.call(404, "GET", "/v1/messages/"+neverGiven(t, later.ID)+"?include_archived=true", "", nil)
	damage(t, bucket)
	restartNode(t, c)
	one.call(500, "GET", "/v1/topics/old/messages?include_archived=true&partition=0&from=0&limit=1", "", nil)
}

// readBack reads what was published in every way.
func readBack(t *testing.T, one caller, n int, value func(int) string) {
	t.Helper()
	all := readAll(one, "include_archived=true&partition=0&from=0&to=latest")
	for i, m := range all {
		if m.Offset != i || m.Value != value(i) {
			t.Fatalf("offset %d came as number %d, with %d bytes", m.Offset, i, len(m.Value))
		}
	}
	if len(all) != n {
		t.Fatalf("%d messages, want %d", len(all), n)
	}
	back := readAll(one, "include_archived=true&direction=backward")
	slices.Reverse(back)
	if !slices.Equal(back, all) {
		t.Errorf("backward there are %d messages, or others", len(back))
	}
	for _, i := range []int{3, n - 1} {
		from := slices.IndexFunc(all, func(m archivedMessage) bool { return !m.Timestamp.Before(all[i].Timestamp) })
		got := readAll(one, "include_archived=true&to=latest&from="+url.QueryEscape(all[i].Timestamp.Format(time.RFC3339Nano)))
		if !slices.Equal(got, all[from:]) {
			t.Errorf("from the time of offset %d: %d messages, want %d", i, len(got), n-from)
		}
	}
}

// scheduleOne publishes a message that is due at once, or nearly so, and settles it.
func scheduleOne(t *testing.T, one caller, value string) message {
	t.Helper()
	var out struct{ Results []message }
	one.call(200, "POST", "/v1/topics/old/messages/batch", `{"messages":[{"value":"`+value+`","delay":"30ms"}]}`, &out)
	got := one.receiveN("old", "g", 1, "wait=20s")
	if len(got) != 1 || got[0].ID != out.Results[0].ID {
		t.Fatalf("%d messages came, the first one is not %s", len(got), out.Results[0].ID)
	}
	one.settle("ack", got, "")
	return got[0]
}

// neverGiven is the id of a schedule of the same partition that nobody got.
func neverGiven(t *testing.T, text string) string {
	t.Helper()
	id, err := mq.ParseMessageID(text)
	must(t, err)
	id.Number += 1000
	return id.String()
}

// byID looks for a message that is archived, and for its life.
func byID(t *testing.T, one caller, m message, value string, want ...string) {
	t.Helper()
	path := "/v1/messages/" + m.ID
	one.call(404, "GET", path, "", nil)
	one.call(404, "GET", path+"/trace", "", nil)
	var got message
	if one.call(200, "GET", path+"?include_archived=true", "", &got); got.Value != value || got.ID != m.ID {
		t.Errorf("message %s has %d bytes, want %s with %d", got.ID, len(got.Value), m.ID, len(value))
	}
	var trace struct {
		Events []struct{ Type, Group, Node string }
		Groups []any
	}
	one.call(200, "GET", path+"/trace?include_archived=true", "", &trace)
	var life []string
	for _, e := range trace.Events {
		life = append(life, strings.Trim(e.Type+" "+e.Group+e.Node, " "))
	}
	if !slices.Equal(life, want) || len(trace.Groups) > 0 {
		t.Errorf("its life is %v with groups %v, want %v", life, trace.Groups, want)
	}
}

// readOn follows the topic from the archive over what is kept to what is published then, as events and as lines.
func readOn(t *testing.T, one caller, n int, value func(int) string) int {
	t.Helper()
	events := one.stream("/v1/topics/old/messages?include_archived=true&partition=0&from=0")
	next := func(i int) {
		t.Helper()
		if m := events.message(); m.Offset != i || m.Value != value(i) {
			t.Fatalf("event %d has offset %d and %d bytes", i, m.Offset, len(m.Value))
		}
	}
	for i := range n {
		next(i)
	}
	one.publish("old", value(n))
	next(n)
	events.stop()
	n++

	req, err := http.NewRequestWithContext(ctxFor(t), http.MethodGet, one.url+"/v1/topics/old/messages?include_archived=true&partition=0&from=0&to=latest", nil)
	must(t, err)
	req.Header.Set("Accept", "application/x-ndjson")
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	lines := json.NewDecoder(res.Body)
	for i := range n {
		var m message
		if must(t, lines.Decode(&m)); m.Offset != i || m.Value != value(i) {
			t.Fatalf("line %d has offset %d and %d bytes", i, m.Offset, len(m.Value))
		}
	}
	return n
}

func restartNode(t *testing.T, c *Cluster) {
	t.Helper()
	must(t, c.Node(1).Stop(ctxFor(t)))
	must(t, c.Node(1).Start(ctxFor(t)))
}

// damage changes a byte in the first entry of every object.
func damage(t *testing.T, bucket string) {
	t.Helper()
	changed := 0
	must(t, filepath.WalkDir(bucket, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if len(b) < 1<<10 {
			return nil // the mark
		}
		b[1000] ^= 1
		changed++
		return os.WriteFile(path, b, 0o600)
	}))
	if changed == 0 {
		t.Fatal("there is no object")
	}
}
