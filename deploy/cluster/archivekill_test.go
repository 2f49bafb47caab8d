package cluster

import (
	"net/http"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/lognode"
	"github.com/splashdam/splashdam/shared/s3test"
)

// The leader is killed in the middle of an upload. Until then nothing is removed and no object has a name; the next leader
// uploads again, removes only then, and everything can be read.
func TestEndArchiveOverAKill(t *testing.T) {
	t.Parallel()
	bucket := s3test.Start()
	t.Cleanup(bucket.Close)
	begun := make(chan struct{}, 1)
	bucket.Before(func(r *http.Request) int {
		if r.Method != http.MethodPut || strings.HasSuffix(r.URL.Path, "/archive") {
			return 0
		}
		select {
		case begun <- struct{}{}:
		default:
		}
		<-r.Context().Done() // the bucket does not answer
		return http.StatusServiceUnavailable
	})
	c := start(t, Options{Nodes: 3, NodeConfig: func(_ int, cfg *lognode.Config) {
		cfg.BallastBytes, cfg.VolumeBytes, cfg.SegmentBytes, cfg.ArchiveURL = 1<<20, 32<<20, 1<<20, bucket.BucketURL()
	}})
	one := via(t, c, 1)
	one.topic("old", `{"partitions":1,"replicas":3,"retention":{"bytes":1048576,"keep_unsettled":false},"archive":true}`)
	value := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), 100<<10) }
	n := 0
	publish := func() { one.publish("old", value(n)); n++ }
	look := func() (first, segments int, leader string) {
		var topic struct {
			Partitions []struct {
				First    int `json:"first_offset"`
				Segments int
				Leader   string
			}
		}
		one.call(200, "GET", "/v1/topics/old", "", &topic)
		return topic.Partitions[0].First, topic.Partitions[0].Segments, topic.Partitions[0].Leader
	}
	eventually(t, "an upload begins", func() bool {
		if _, segments, _ := look(); segments < 4 {
			publish()
		}
		select {
		case <-begun:
			return true
		default:
			return false
		}
	})
	first, _, leader := look()
	if named := bucket.Keys(); first != 0 || len(named) > 1 {
		t.Fatalf("the first offset is %d, and the bucket has %v", first, named)
	}
	must(t, c.NodeNamed(leader).Kill())
	bucket.Before(nil)
	eventually(t, "the next leader removes what it uploaded", func() bool { first, _, _ := look(); return first > 0 })
	publish()
	for i, m := range readAll(one, "include_archived=true&partition=0&from=0&to=latest") {
		if m.Offset != i || m.Value != value(i) {
			t.Fatalf("offset %d came as number %d, with %d bytes", m.Offset, i, len(m.Value))
		}
		n--
	}
	if n != 0 {
		t.Errorf("%d messages are missing", n)
	}
}
