package cluster

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An old segment is damaged on all of its replicas, and the partition does not need it to go on. Reads of it are refused at once
// and say what helps, everything else goes on; an operator gives it up while the partition is served, and everybody passes
// over it.
func TestEndDamagedOldSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, Options{Dir: dir, Nodes: 2})
	one := via(t, c, 1)
	one.topic("aged", `{"partitions":1,"replicas":2,"ack_quorum":2}`)
	for i := range 20 {
		publishAnyway(t, one, "aged", wide(i))
	}
	one.settle("ack", one.receiveN("aged", "g", 5, ""), "")
	one.call(200, "POST", "/v1/topics/aged/partitions/0/move-leader", "", nil)
	restart := func(end func(*Member), between func(*Member)) {
		for _, f := range []func(*Member){end, between, func(m *Member) { must(t, m.Start(ctxFor(t))) }} {
			f(c.Node(1))
			f(c.Node(2))
		}
	}
	restart(func(m *Member) { must(t, m.Stop(ctxFor(t))) }, func(*Member) {}) // what comes now lies in other files
	publishAnyway(t, one, "aged", wide(20))
	// A leader opens without the entries of a segment when it has its footer, which nodes derive every ten seconds.
	eventually(t, "the footers of the first segment", func() bool {
		found, err := filepath.Glob(filepath.Join(dir, "node-*", "footers", "1"))
		must(t, err)
		return len(found) == 2
	})
	restart(func(m *Member) { must(t, m.Kill()) }, func(m *Member) { spoil(t, filepath.Join(dir, m.Name()), "v-10-") })
	publishAnyway(t, one, "aged", wide(21))

	var problem struct{ Code, Detail string }
	one.call(503, "GET", "/v1/topics/aged/messages?partition=0&from=10", "", &problem)
	if problem.Code != "partition_damaged" || !strings.Contains(problem.Detail, "force-recover aged 0") {
		t.Errorf("a read of what is damaged: %+v", problem)
	}
	var read struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/aged/messages?partition=0&from=11&limit=100", "", &read)
	if got := values(read.Messages); !slices.Equal(got, wides(11, 22)) {
		t.Errorf("behind the damage: %v", short(got))
	}
	got := one.receiveN("aged", "g", 16, "")
	slices.SortFunc(got, func(a, b message) int { return int(a.Offset) - int(b.Offset) })
	if want := slices.Concat(wides(5, 10), wides(11, 22)); !slices.Equal(values(got), want) {
		t.Errorf("the group got %v", short(values(got)))
	}
	one.settle("ack", got, "")

	for _, path := range []string{"/v1/topics/aged", "/v1/topics/aged/groups/g"} {
		if got, want := unreadable(one, path), []offsets{{0, 20}}; !slices.Equal(got, want) {
			t.Errorf("%s: unreadable %v, want %v", path, got, want)
		}
	}

	path := "/v1/topics/aged/partitions/0/force-recover"
	var dry, done forced
	one.call(200, "POST", path+"?dry_run=true", `{}`, &dry)
	if !dry.Needed || len(dry.Lost) != 1 || dry.Lost[0].From != 10 || dry.Lost[0].To != 20 {
		t.Fatalf("dry run: %+v", dry)
	}
	one.call(200, "POST", path, `{"accept_loss":true,"by":"ann"}`, &done)
	if !done.Forced || len(done.Lost) != 1 || done.Lost[0].From != 10 || done.Lost[0].By != "ann" {
		t.Fatalf("forced: %+v", done)
	}
	publishAnyway(t, one, "aged", wide(22))
	one.untilStatus(410, "GET", "/v1/topics/aged/messages?partition=0&from=10", "")
	one.call(200, "GET", "/v1/topics/aged/messages?partition=0&limit=100", "", &read)
	if got, want := values(read.Messages), slices.Concat(wides(0, 10), wides(20, 23)); !slices.Equal(got, want) {
		t.Errorf("read %v", short(got))
	}
	if got := unreadable(one, "/v1/topics/aged"); len(got) > 0 {
		t.Errorf("still unreadable after it was given up: %v", got)
	}
	one.settle("ack", one.receiveN("aged", "g", 1, ""), "")
	if g := one.group("aged", "g"); g.Lag != 0 {
		t.Errorf("a lag of %d with everything acked", g.Lag)
	}
}

type offsets struct{ From, To uint64 }

// unreadable is what a topic or a group says of its first partition.
func unreadable(one caller, path string) []offsets {
	one.t.Helper()
	var got struct {
		Partitions []struct{ Unreadable []offsets }
	}
	one.call(200, "GET", path, "", &got)
	return got.Partitions[0].Unreadable
}
