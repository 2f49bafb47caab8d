package cluster

import (
	"path/filepath"
	"slices"
	"testing"
)

// repairedBytes is how much all nodes have copied to make copies whole.
func repairedBytes(t *testing.T, c *Cluster) (n float64) {
	t.Helper()
	families, err := c.Metrics().Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "splashdam_partition_repaired_bytes_total" {
			for _, m := range f.GetMetric() {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

// A leader that opens, or a read, meets damage in its copy of an old segment: what is asked for comes from another replica, and
// the copy is made whole at once, not when all segments are looked at the next time.
func TestEndReadOfADamagedCopyHasItRepaired(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, Options{Dir: dir, Nodes: 3})
	one := via(t, c, 1)
	one.topic("aged", `{"partitions":1,"replicas":3}`)
	for i := range 20 {
		publishAnyway(t, one, "aged", wide(i))
	}
	for i := 20; i < 22; i++ { // another segment is the last one
		one.call(200, "POST", "/v1/topics/aged/partitions/0/move-leader", "", nil)
		publishAnyway(t, one, "aged", wide(i))
	}
	damaged := c.Node(1)
	must(t, damaged.Stop(ctxFor(t))) // what is sealed lies in files that are not written any more
	must(t, damaged.Start(ctxFor(t)))
	publishAnyway(t, one, "aged", "beside")
	must(t, damaged.Stop(ctxFor(t)))
	spoil(t, filepath.Join(dir, damaged.Name()), "v-10-")
	before := repairedBytes(t, c)
	must(t, damaged.Start(ctxFor(t)))
	eventually(t, "the node leads", func() bool {
		status, _, err := one.try(t.Context(), "POST", "/v1/topics/aged/partitions/0/move-leader", `{"to":"`+damaged.Name()+`"}`)
		return err == nil && status < 500 && one.leader("aged", 0) == damaged.Name()
	})
	var read struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/aged/messages?partition=0&from=9&limit=5", "", &read)
	if got := values(read.Messages); !slices.Equal(got, wides(9, 14)) {
		t.Errorf("read %v", short(got))
	}
	eventually(t, "the copy is repaired", func() bool { return repairedBytes(t, c) > before+20*3000 })
}
