package cluster

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// spoilAll kills all nodes, spoils a text of its own in each copy of what they wrote, and starts them again.
func spoilAll(t *testing.T, c *Cluster, dir string, texts ...[]string) {
	t.Helper()
	for n := range texts {
		must(t, c.Node(n+1).Kill())
	}
	for n, list := range texts {
		for _, text := range list {
			spoil(t, filepath.Join(dir, c.Node(n+1).Name()), text)
		}
	}
	for n := range texts {
		must(t, c.Node(n+1).Start(ctxFor(t)))
	}
}

// entryAt is under what a store has the entry of the first segment that begins with an offset: where that is broken in its log, a
// start finds that the entry is missing.
func entryAt(offset uint64) string {
	key := binary.BigEndian.AppendUint64(nil, 1)
	return string(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(key, offset), 0))
}

// scraped is the sum of a counter over all nodes, which are processes of their own.
func scraped(t *testing.T, c *Cluster, name string) (n float64) {
	t.Helper()
	for _, m := range c.nodes {
		res, err := http.Get("http://" + c.layout.addr(m.Name()+"/debug") + "/metrics")
		must(t, err)
		body, err := io.ReadAll(res.Body)
		must(t, errors.Join(err, res.Body.Close()))
		_, text, found := strings.Cut(string(body), "\n"+name+" ")
		if !found {
			t.Fatalf("%s does not show %s", m.Name(), name)
		}
		text, _, _ = strings.Cut(text, "\n")
		x, err := strconv.ParseFloat(text, 64)
		must(t, err)
		n += x
	}
	return n
}

// frail is a cluster of processes in dir, and a topic of one partition on all of its nodes.
func frail(t *testing.T) (c *Cluster, one caller, dir string) {
	dir = t.TempDir()
	c = start(t, Options{Dir: dir, Nodes: 3, Processes: &Processes{}})
	one = via(t, c, 1)
	one.topic("frail", `{"partitions":1,"replicas":3}`)
	return c, one, dir
}

// All nodes were down, and every copy of the open segment was damaged meanwhile, each at another place. Together they are whole: the
// partition goes on by itself, with everything that was acknowledged and all that groups did, at the offsets where it was.
func TestEndOpenSegmentDamagedOnAllReplicasComesBack(t *testing.T) {
	t.Parallel()
	c, one, dir := frail(t)
	for i := range 30 {
		if publishAnyway(t, one, "frail", wide(i)); i == 24 {
			one.settle("ack", one.receiveN("frail", "g", 5, ""), "")
		}
	}
	spoilAll(t, c, dir, []string{entryAt(5), entryAt(21)}, []string{entryAt(10)}, []string{entryAt(15), entryAt(20)})
	publishAnyway(t, one, "frail", wide(30))
	if got := scraped(t, c, "splashdam_partition_restored_copies_total"); got < 2 {
		t.Errorf("%v copies were restored: the segment ended by fewer answers than there must be", got)
	}
	var read struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/frail/messages?partition=0&from=0&limit=100", "", &read)
	if got := values(read.Messages); !slices.Equal(got, wides(0, 31)) {
		t.Errorf("read %v", short(got))
	}
	for i, m := range read.Messages {
		if m.Offset != i {
			t.Fatalf("message %d has the offset %d", i, m.Offset)
		}
	}
	got := values(one.receiveN("frail", "g", 26, ""))
	if slices.Sort(got); !slices.Equal(got, wides(5, 31)) {
		t.Errorf("the group that had acked five got %v", short(got))
	}
	var topic struct{ Partitions []struct{ Lost []lostRange } }
	if one.call(200, "GET", "/v1/topics/frail", "", &topic); len(topic.Partitions[0].Lost) > 0 {
		t.Errorf("lost: %+v", topic.Partitions[0].Lost)
	}
	for n := range 3 { // every copy was what it is said to be: any two nodes have all of it
		must(t, c.Node(n+1).Stop(ctxFor(t)))
		publishAnyway(t, one, "frail", fmt.Sprint("without ", n+1))
		one.call(200, "GET", "/v1/topics/frail/messages?partition=0&from=0&limit=31", "", &read)
		if got := values(read.Messages); !slices.Equal(got, wides(0, 31)) {
			t.Errorf("without node %d: read %v", n+1, short(got))
		}
		must(t, c.Node(n+1).Start(ctxFor(t)))
	}
}

// An entry is broken in all copies of the open segment, and others in one copy each. An operator who goes on keeps everything before
// that entry, though no copy has it all; the dry run says so.
func TestEndForceRecoverKeepsWhatAllCopiesHaveTogether(t *testing.T) {
	t.Parallel()
	c, one, dir := frail(t)
	for i := range 30 {
		publishAnyway(t, one, "frail", wide(i))
	}
	spoilAll(t, c, dir, []string{entryAt(5), entryAt(20)}, []string{entryAt(10), entryAt(20)}, []string{entryAt(15), entryAt(20)})
	path := "/v1/topics/frail/partitions/0/force-recover"
	var dry struct {
		forced
		Replicas []struct {
			Damaged    bool
			NextOffset int `json:"next_offset"`
		}
	}
	eventually(t, "all nodes know what they have together", func() bool {
		status, body, err := one.try(t.Context(), "POST", path+"?dry_run=true", `{}`)
		must(t, err)
		dry.Replicas, dry.Lost = nil, nil
		if status != 200 || json.Unmarshal(body, &dry) != nil || len(dry.Replicas) != 3 {
			return false
		}
		for _, r := range dry.Replicas {
			if !r.Damaged || r.NextOffset != 20 {
				return false
			}
		}
		return true
	})
	if !dry.Needed || len(dry.Lost) != 1 || dry.Lost[0].From != 20 {
		t.Fatalf("dry run: %+v", dry)
	}
	if got := scraped(t, c, "splashdam_partition_restored_copies_total"); got != 0 {
		t.Errorf("%v copies were taken for whole", got)
	}
	var done forced
	one.call(200, "POST", path, `{"accept_loss":true,"by":"ann"}`, &done)
	if !done.Forced || len(done.Lost) != 1 || done.Lost[0].From != 20 || done.Lost[0].By != "ann" {
		t.Fatalf("forced: %+v", done)
	}
	publishAnyway(t, one, "frail", "after")
	if got := values(one.read("frail")); !slices.Equal(got, append([]string{"after"}, wides(0, 20)...)) {
		t.Errorf("read %v", short(got))
	}
	one.call(410, "GET", "/v1/topics/frail/messages?partition=0&from=20", "", nil)
}
