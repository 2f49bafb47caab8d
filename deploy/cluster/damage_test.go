package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// spoil flips a byte wherever a text lies in the volumes of a node that does not run.
func spoil(t *testing.T, dir, text string) {
	t.Helper()
	hits := 0
	must(t, filepath.WalkDir(filepath.Join(dir, "volumes"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(b, []byte(text)) {
			return err
		}
		hits++
		return os.WriteFile(path, bytes.ReplaceAll(b, []byte(text), bytes.Repeat([]byte{0xff}, len(text))), 0o600)
	}))
	if hits == 0 {
		t.Fatalf("%q lies in no file of %s", text, dir)
	}
}

func wide(i int) string { return fmt.Sprintf("v-%02d-%s", i, strings.Repeat("x", 3000)) }

func wides(from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, wide(i))
	}
	return out
}

// short are the beginnings of values.
func short(values []string) (out []string) {
	for _, v := range values {
		out = append(out, v[:min(len(v), 5)])
	}
	return out
}

// untilStatus repeats a call until it is answered with a status.
func (c caller) untilStatus(status int, method, path, body string) (answer []byte) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%s %s is answered %d", method, path, status), func() bool {
		got, text, err := c.try(c.t.Context(), method, path, body)
		if err != nil {
			c.t.Fatalf("%s %s: %v", method, path, err)
		}
		answer = text
		return got == status
	})
	return answer
}

// The only copy of a partition is damaged on its disk. What is before the damage is read and traced as ever, nothing can
// be written and the answer says what helps; an operator goes on without the rest, and a restart changes nothing of that.
func TestEndDamagedOnlyCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, Options{Dir: dir, Nodes: 1})
	one := via(t, c, 1)
	one.topic("frail", `{"partitions":1}`)
	var ids []string
	for i := range 30 {
		if ids = append(ids, one.publish("frail", wide(i)).ID); i == 9 { // what is recorded behind the damage is lost
			one.settle("ack", one.receiveN("frail", "g", 5, ""), "")
		}
	}
	must(t, c.Node(1).Kill())
	spoil(t, filepath.Join(dir, "node-1"), "v-20-")
	must(t, c.Node(1).Start(ctxFor(t)))

	var problem struct{ Code, Detail string }
	eventually(t, "the node has looked for another copy", func() bool {
		must(t, json.Unmarshal(one.untilStatus(503, "POST", "/v1/topics/frail/messages", "more"), &problem))
		return problem.Code == "partition_damaged"
	})
	if !strings.Contains(problem.Detail, "force-recover frail 0") || !strings.Contains(problem.Detail, "offset 20") {
		t.Errorf("the advice is %q", problem.Detail)
	}
	if got := values(one.read("frail")); !slices.Equal(got, wides(0, 20)) {
		t.Errorf("read %v", short(got))
	}
	one.call(200, "GET", "/v1/messages/"+ids[7], "", nil)
	one.call(200, "GET", "/v1/messages/"+ids[7]+"/trace", "", nil)
	one.call(200, "GET", "/v1/topics/frail/messages?partition=0&from=2000-01-01T00:00:00Z&limit=5", "", nil)
	one.call(503, "POST", "/v1/topics/frail/groups/g/receive", `{}`, nil)
	var topic struct {
		State      string
		Partitions []struct {
			State string
			Error struct{ Code string }
		}
	}
	one.call(200, "GET", "/v1/topics/frail", "", &topic)
	if topic.State != "read_only" || topic.Partitions[0].State != "read_only" || topic.Partitions[0].Error.Code != "partition_damaged" {
		t.Errorf("described as %+v", topic)
	}

	path := "/v1/topics/frail/partitions/0/force-recover"
	var dry, done forced
	one.call(200, "POST", path+"?dry_run=true", `{}`, &dry)
	if !dry.Needed || len(dry.Lost) != 1 || dry.Lost[0].From != 20 {
		t.Fatalf("dry run: %+v", dry)
	}
	one.call(200, "POST", path, `{"accept_loss":true,"by":"ann","node":"node-1"}`, &done)
	if !done.Forced || done.Lost[0].From != 20 || done.Lost[0].By != "ann" {
		t.Fatalf("forced: %+v", done)
	}
	publishAnyway(t, one, "frail", "after")
	for range 2 {
		if got := values(one.read("frail")); !slices.Equal(got, append([]string{"after"}, wides(0, 20)...)) {
			t.Errorf("read %v", short(got))
		}
		must(t, c.Node(1).Kill())
		must(t, c.Node(1).Start(ctxFor(t)))
		one.untilStatus(200, "GET", "/v1/topics/frail/messages?limit=1", "")
	}
	got := values(one.receiveN("frail", "g", 16, ""))
	if want := append([]string{"after"}, wides(5, 20)...); !slices.Equal(got, want) {
		t.Errorf("the group that had acked five got %v", short(got))
	}
}

// The only node of a partition lost its directory: nothing answers for it any more. An operator who says so goes on with an
// empty partition, and the offsets of what is lost are not given again.
func TestEndForceRecoverWithNothingLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, Options{Dir: dir, Nodes: 1, CoordinatorConfig: nobodyIsLost})
	one := via(t, c, 1)
	one.topic("gone", `{"partitions":1}`)
	for i := range 5 {
		one.publish("gone", fmt.Sprintf("v-%d", i))
	}
	must(t, c.Node(1).Kill())
	must(t, os.RemoveAll(filepath.Join(dir, "node-1")))
	must(t, c.Node(1).Start(ctxFor(t)))
	path := "/v1/topics/gone/partitions/0/force-recover"
	one.untilStatus(503, "POST", path+"?dry_run=true", `{}`) // nobody answers, and nobody agreed to go on with that
	var done forced
	one.call(200, "POST", path, `{"accept_loss":true,"empty":true,"by":"ann"}`, &done)
	if !done.Forced || len(done.Lost) != 1 || done.Lost[0].From != 0 || done.Lost[0].To != 1<<32 {
		t.Fatalf("forced: %+v", done)
	}
	publishAnyway(t, one, "gone", "after")
	if got := one.read("gone"); len(got) != 1 || got[0].Value != "after" || got[0].Offset < 1<<32 {
		t.Errorf("read %+v", got)
	}
	one.call(410, "GET", "/v1/topics/gone/messages?partition=0&from=3", "", nil)
}

// The only node of a partition lost its directory, and with it a sealed segment and the open one: one call gives up both, and
// after it the partition goes on.
func TestEndForceRecoverOfSealedSegmentsTakesOneCall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, Options{Dir: dir, Nodes: 1, CoordinatorConfig: nobodyIsLost})
	one := via(t, c, 1)
	one.topic("gone", `{"partitions":1}`)
	for i := range 5 {
		one.publish("gone", fmt.Sprintf("v-%d", i))
	}
	must(t, c.Node(1).Stop(ctxFor(t))) // seals
	must(t, c.Node(1).Start(ctxFor(t)))
	for i := 5; i < 8; i++ {
		publishAnyway(t, one, "gone", fmt.Sprintf("v-%d", i))
	}
	must(t, c.Node(1).Kill())
	must(t, os.RemoveAll(filepath.Join(dir, "node-1")))
	must(t, c.Node(1).Start(ctxFor(t)))
	path := "/v1/topics/gone/partitions/0/force-recover"
	one.untilStatus(503, "POST", path+"?dry_run=true", `{}`)
	var dry, done forced
	one.call(200, "POST", path+"?dry_run=true", `{"empty":true}`, &dry)
	if !dry.Needed || len(dry.Lost) != 2 {
		t.Errorf("dry run: %+v", dry)
	}
	one.call(200, "POST", path, `{"accept_loss":true,"empty":true,"by":"ann"}`, &done)
	if !done.Forced || len(done.Lost) != 2 || done.Lost[0].From != 0 || done.Lost[0].To != 5 || done.Lost[1].From != 5 || done.Lost[1].By != "ann" {
		t.Fatalf("forced: %+v", done)
	}
	one.publish("gone", "after")
	if got := one.read("gone"); len(got) != 1 || got[0].Value != "after" || got[0].Offset < 1<<32 {
		t.Errorf("read %+v", got)
	}
	for _, from := range []string{"3", "6"} {
		one.call(410, "GET", "/v1/topics/gone/messages?partition=0&from="+from, "", nil)
	}
}
