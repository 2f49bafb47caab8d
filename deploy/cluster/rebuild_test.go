package cluster

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/coordinator"
	"github.com/splashdam/splashdam/gateway"
)

type rebuilt struct {
	Rebuilt                              bool
	Topics, Groups, Partitions, Segments int
	Renamed, Lost                        []string
	LeftOut                              []string `json:"left_out"`
}

// The coordinators lose everything. What was acknowledged is read again, groups go on where they were, receipts that were given
// before still settle, and topics have their names and settings.
func TestEndRebuildMetadata(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recover := ""
	options := Options{Dir: dir, Nodes: 3, CoordinatorConfig: func(_ int, cfg *coordinator.Config) { cfg.RecoverCluster = recover }}
	c, err := Start(ctxFor(t), options)
	must(t, err)
	one := via(t, c, 1)
	one.topic("orders", `{"partitions":2,"replicas":3,"retention":{"time":"48h"}}`)
	for i := range 20 {
		one.publish("orders", fmt.Sprintf("v-%d", i))
	}
	first := one.receiveN("orders", "workers", 8, "lease=1h")
	one.settle("ack", first[:5], "")
	one.topic("gone", `{"partitions":1,"replicas":3}`)
	one.publish("gone", "x")
	one.call(200, "DELETE", "/v1/topics/gone", "", nil)
	var cluster struct{ ID string }
	one.call(200, "GET", "/v1/cluster", "", &cluster)
	mirrored(t, dir, c)
	must(t, c.Stop(ctxFor(t)))
	must(t, os.RemoveAll(filepath.Join(dir, "coordinator-1")))

	recover = cluster.ID
	c, err = Start(ctxFor(t), options)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		must(t, c.Stop(ctx))
	})
	one = via(t, c, 1)
	one.call(404, "GET", "/v1/topics/orders", "", nil)
	one.call(503, "PUT", "/v1/topics/early", "{}", nil) // its id could be that of an old topic
	var dry, done rebuilt
	one.call(200, "POST", "/v1/cluster/rebuild-metadata?dry_run=true", "", &dry)
	one.call(200, "POST", "/v1/cluster/rebuild-metadata", "", &done)
	if dry.Rebuilt || !done.Rebuilt || done.Topics != 1 || done.Groups != 1 || done.Partitions != 2 || len(done.Lost)+len(done.LeftOut)+len(done.Renamed) > 0 {
		t.Fatalf("dry run %+v, done %+v", dry, done)
	}
	one.call(409, "POST", "/v1/cluster/rebuild-metadata", "", nil)
	one.call(409, "POST", "/v1/cluster/rebuild-metadata?dry_run=true", "", nil)
	publishAnyway(t, one, "orders", "v-20")
	var topic struct {
		Settings struct {
			Retention struct{ Time string }
		}
	}
	one.call(200, "GET", "/v1/topics/orders", "", &topic)
	if topic.Settings.Retention.Time != "48h" {
		t.Errorf("the settings came back as %+v", topic)
	}
	one.call(404, "GET", "/v1/topics/gone", "", nil)
	var read struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/orders/messages?limit=100", "", &read)
	if got := values(read.Messages); !slices.Equal(got, numbered("v", 21)) {
		t.Errorf("read %v", got)
	}
	one.settle("ack", first[5:], "")
	var want []string
	for _, v := range numbered("v", 21) {
		if !slices.Contains(values(first), v) {
			want = append(want, v)
		}
	}
	if got := values(one.receiveN("orders", "workers", 13, "")); !slices.Equal(got, want) {
		t.Errorf("the group got %v, want %v", got, want)
	}
}

// Somebody puts back an old copy of the coordinators' data. The nodes have seen more than it knows: nothing is served, and
// nothing is made, on ground of it; from what the nodes hold all comes back.
func TestEndOldMetadataIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recover, refused := "", false
	options := Options{Dir: dir, Nodes: 3, CoordinatorConfig: func(_ int, cfg *coordinator.Config) { cfg.RecoverCluster = recover },
		GatewayConfig: func(_ int, cfg *gateway.Config) {
			if refused { // however long one waits
				cfg.RequestTimeout = 2 * time.Second
			}
		}}
	run := func(use func(c *Cluster, one caller)) {
		c, err := Start(ctxFor(t), options)
		must(t, err)
		use(c, via(t, c, 1))
		must(t, c.Stop(ctxFor(t)))
	}
	data, old := filepath.Join(dir, "coordinator-1"), filepath.Join(dir, "old")
	var cluster struct{ ID string }
	run(func(_ *Cluster, one caller) {
		one.topic("back", `{"partitions":1,"replicas":3}`)
		one.publish("back", "v-0")
		one.call(200, "GET", "/v1/cluster", "", &cluster)
	})
	must(t, os.CopyFS(old, os.DirFS(data)))
	run(func(_ *Cluster, one caller) { publishAnyway(t, one, "back", "v-1") })
	must(t, os.RemoveAll(data))
	must(t, os.Rename(old, data))
	refused = true
	run(func(c *Cluster, one caller) {
		one.untilStatus(503, "POST", "/v1/topics/back/messages", "never") // or 504, where a busy machine does not answer in time
		if n := gauge(t, c, "splashdam_partition_metadata_behind"); n == 0 {
			t.Error("no node says that its partition's metadata is behind")
		}
	})
	must(t, os.RemoveAll(data))
	recover, refused = cluster.ID, false
	run(func(_ *Cluster, one caller) {
		one.call(200, "POST", "/v1/cluster/rebuild-metadata", "", nil)
		publishAnyway(t, one, "back", "v-2")
		if got := values(one.receiveN("back", "g", 3, "")); !slices.Equal(got, numbered("v", 3)) {
			t.Errorf("received %v", got)
		}
	})
}

// gauge sums a metric over all components.
func gauge(t *testing.T, c *Cluster, name string) (sum float64) {
	t.Helper()
	families, err := c.Metrics().Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// mirrored waits until each node has a copy of the configuration with all that the test made last.
func mirrored(t *testing.T, dir string, c *Cluster) {
	t.Helper()
	for i := 1; i <= 3; i++ {
		ctx := ctxFor(t)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for !mirrors(filepath.Join(dir, c.Node(i).Name(), "configuration")) {
			select {
			case <-ctx.Done():
				t.Fatal("no copy of the configuration was made")
			case <-tick.C:
			}
		}
	}
}

func mirrors(path string) bool {
	const frameHeader = 12
	b, err := os.ReadFile(path)
	if err != nil || len(b) < frameHeader {
		return false
	}
	z, err := gzip.NewReader(bytes.NewReader(b[frameHeader:]))
	if err != nil {
		return false
	}
	var m struct {
		Keys []struct {
			Key   string
			Value []byte
		}
	}
	if json.NewDecoder(z).Decode(&m) != nil {
		return false
	}
	group, tombstone := false, false
	for _, kv := range m.Keys {
		group = group || strings.HasSuffix(kv.Key, "/workers") && strings.Contains(string(kv.Value), `"started":true`)
		tombstone = tombstone || strings.HasPrefix(kv.Key, "/deleted/")
	}
	return group && tombstone
}
