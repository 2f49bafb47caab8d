package cluster

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

// Both of two copies of an old segment are damaged, each at another place. All of it is read, and both become whole: with either
// node away the other one has everything.
func TestEndCopiesDamagedAtDifferentPlacesBecomeWhole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, Options{Dir: dir, Nodes: 2})
	one := via(t, c, 1)
	one.topic("aged", `{"partitions":1,"replicas":2,"ack_quorum":2}`)
	for i := range 20 {
		publishAnyway(t, one, "aged", wide(i))
	}
	for i := 20; i < 22; i++ { // another segment is the last one
		one.call(200, "POST", "/v1/topics/aged/partitions/0/move-leader", "", nil)
		publishAnyway(t, one, "aged", wide(i))
	}
	for n := range 2 { // what comes now lies in other files
		must(t, c.Node(n+1).Stop(ctxFor(t)))
	}
	for n := range 2 {
		must(t, c.Node(n+1).Start(ctxFor(t)))
	}
	publishAnyway(t, one, "aged", wide(22))
	for n := range 2 {
		must(t, c.Node(n+1).Stop(ctxFor(t)))
		spoil(t, filepath.Join(dir, c.Node(n+1).Name()), fmt.Sprintf("v-%02d-", 5+10*n))
	}
	before := repairedBytes(t, c)
	for n := range 2 {
		must(t, c.Node(n+1).Start(ctxFor(t)))
	}
	publishAnyway(t, one, "aged", wide(23))
	for n := range 2 { // each meets the damage of its own copy when it leads
		name := c.Node(n + 1).Name()
		eventually(t, name+" leads", func() bool {
			status, _, err := one.try(t.Context(), "POST", "/v1/topics/aged/partitions/0/move-leader", `{"to":"`+name+`"}`)
			return err == nil && status < 500 && one.leader("aged", 0) == name
		})
		one.call(200, "GET", "/v1/topics/aged/messages?partition=0&from=0&limit=100", "", nil)
	}
	eventually(t, "both copies are repaired", func() bool { return repairedBytes(t, c) > before+2*20*3000 })
	var read struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/aged/messages?partition=0&limit=100", "", &read)
	if got := values(read.Messages); !slices.Equal(got, wides(0, 24)) {
		t.Errorf("read %v", short(got))
	}
	if got := unreadable(one, "/v1/topics/aged"); len(got) > 0 {
		t.Errorf("unreadable: %v", got)
	}
	for n := range 2 { // without a quorum what is sealed is read
		must(t, c.Node(n+1).Stop(ctxFor(t)))
		eventually(t, "all of the old segment is read from the other node", func() bool {
			status, body, err := one.try(t.Context(), "GET", "/v1/topics/aged/messages?partition=0&from=0&limit=20", "")
			read.Messages = nil
			return err == nil && status == 200 && json.Unmarshal(body, &read) == nil && slices.Equal(values(read.Messages), wides(0, 20))
		})
		must(t, c.Node(n+1).Start(ctxFor(t)))
	}
}
