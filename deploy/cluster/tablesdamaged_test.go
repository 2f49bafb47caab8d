package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// One bit is flipped in a table of Badger's on each of three nodes, at different places. All entries are intact in all value logs: nothing
// that was acknowledged is lost, and no operator is needed.
func TestEndTablesDamagedOnAllReplicas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, Options{Dir: dir, Nodes: 3, Processes: &Processes{}})
	one := via(t, c, 1)
	one.topic("frail", `{"partitions":1,"replicas":3}`)
	for i := range 30 {
		publishAnyway(t, one, "frail", wide(i))
	}
	for n := range 3 { // each start makes a table of what the WAL had
		must(t, c.Node(n+1).Kill())
	}
	for n := range 3 {
		must(t, c.Node(n+1).Start(ctxFor(t)))
	}
	publishAnyway(t, one, "frail", wide(30))
	for n := range 3 {
		must(t, c.Node(n+1).Kill())
	}
	for n := range 3 {
		names, err := filepath.Glob(filepath.Join(dir, c.Node(n+1).Name(), "volumes", "*", "*.sst"))
		must(t, err)
		if len(names) == 0 {
			t.Fatal("no table")
		}
		b, err := os.ReadFile(names[0])
		must(t, err)
		b[100+200*n] ^= 1
		must(t, os.WriteFile(names[0], b, 0o600))
	}
	for n := range 3 {
		must(t, c.Node(n+1).Start(ctxFor(t)))
	}
	var read struct{ Messages []message }
	eventually(t, "all is read", func() bool {
		status, body, err := one.try(t.Context(), "GET", "/v1/topics/frail/messages?partition=0&from=0&limit=100", "")
		if err != nil || status != 200 {
			t.Logf("%d %s", status, body)
		}
		return err == nil && status == 200
	})
	one.call(200, "GET", "/v1/topics/frail/messages?partition=0&from=0&limit=100", "", &read)
	if got := values(read.Messages); !slices.Equal(got, wides(0, 31)) {
		t.Errorf("read %v", short(got))
	}
	publishAnyway(t, one, "frail", wide(31))
}
