package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/coordinator"
	"github.com/splashdam/splashdam/shared/mq"
)

// nobodyIsLost makes coordinators wait for nodes that are away longer than any test lasts.
func nobodyIsLost(_ int, cfg *coordinator.Config) { cfg.RepairAfter = time.Hour }

// Both of two replicas must have a message. With one of them gone for good the other one is copied to a third node at
// once: publishing and consuming do not wait until the first is taken for lost.
func TestEndSuffixIsCopiedAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Nodes: 3, CoordinatorConfig: nobodyIsLost})
	one := via(t, c, 1)
	one.topic("two", `{"partitions":1,"replicas":2,"ack_quorum":2}`)
	for i := range 20 {
		one.publish("two", fmt.Sprintf("v-%d", i))
	}
	gone := c.NodeNamed(one.leader("two", 0))
	began := time.Now()
	must(t, gone.Kill())
	publishAnyway(t, one, "two", "v-20")
	t.Logf("the first publish was acknowledged %s after the leader was killed", time.Since(began))
	if got := values(one.receiveN("two", "g", 21, "")); !slices.Equal(got, numbered("v", 21)) {
		t.Errorf("received %v", got)
	}
}

type lostRange struct {
	From, To uint64
	Forced   bool
	By       string
}

type forced struct {
	Needed, Forced bool
	Because        string
	Lost           []lostRange
}

// An operator goes on with the one replica of three that is left. Everything that it has is served, what may have been
// beyond it is recorded as lost, no offset comes twice, and groups do not wait for what can't come.
func TestEndForceRecover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := start(t, Options{Dir: dir, Nodes: 3, CoordinatorConfig: nobodyIsLost})
	one := via(t, c, 1)
	one.topic("sad", `{"partitions":1,"replicas":3}`)
	for i := range 10 {
		one.publish("sad", fmt.Sprintf("v-%d", i))
	}
	one.settle("ack", one.receiveN("sad", "old", 4, ""), "")
	path := "/v1/topics/sad/partitions/0/force-recover"
	var served forced
	one.call(200, "POST", path, `{"accept_loss":true}`, &served)
	if served.Needed || served.Forced {
		t.Fatalf("a partition that is served was forced: %+v", served)
	}
	leader := one.leader("sad", 0)
	var gone []*Member
	for i := 1; i <= 3; i++ {
		if m := c.Node(i); m.Name() != leader {
			gone = append(gone, m)
		}
	}
	for _, m := range gone { // two of three are lost, and come back with nothing
		must(t, m.Kill())
		must(t, os.RemoveAll(filepath.Join(dir, m.Name())))
	}
	for _, m := range gone {
		must(t, m.Start(ctxFor(t)))
	}
	var dry, done forced
	eventually(t, "the leader notices", func() bool { // within a second
		one.call(200, "POST", path+"?dry_run=true", `{"by":"ann"}`, &dry)
		return dry.Needed
	})
	one.call(422, "POST", path, `{}`, nil)
	one.call(422, "POST", path+"?dry_run=true", `{"node":"node-9"}`, nil)
	one.call(503, "POST", path+"?dry_run=true", `{"node":"`+gone[0].Name()+`"}`, nil)
	want := lostRange{From: 10, To: 10 + 1<<32, Forced: true, By: "ann"}
	if !dry.Needed || dry.Forced || len(dry.Lost) != 1 || dry.Lost[0] != want {
		t.Fatalf("dry run: %+v", dry)
	}
	one.call(200, "POST", path, `{"accept_loss":true,"by":"ann","node":"`+leader+`"}`, &done)
	if !done.Forced || len(done.Lost) != 1 || done.Lost[0] != want {
		t.Fatalf("forced: %+v", done)
	}
	publishAnyway(t, one, "sad", "v-10")
	afterTheHole(t, one, want)
}

// afterTheHole looks at a topic of 10 messages, a hole, and one more.
func afterTheHole(t *testing.T, one caller, hole lostRange) {
	var topic struct {
		Messages   uint64
		Partitions []struct{ Lost []lostRange }
	}
	one.call(200, "GET", "/v1/topics/sad", "", &topic)
	if topic.Messages != 11 || len(topic.Partitions[0].Lost) != 1 || topic.Partitions[0].Lost[0] != hole {
		t.Errorf("described as %+v", topic)
	}
	var cluster struct {
		Partitions struct {
			Lost   int `json:"lost_ranges"`
			Forced int
		}
	}
	one.call(200, "GET", "/v1/cluster", "", &cluster)
	if cluster.Partitions.Lost != 1 || cluster.Partitions.Forced != 1 {
		t.Errorf("the cluster says %+v", cluster)
	}
	rest := one.receiveN("sad", "old", 7, "")
	if got := values(rest); !slices.Equal(got, []string{"v-10", "v-4", "v-5", "v-6", "v-7", "v-8", "v-9"}) {
		t.Errorf("the group that had acked four got %v", got)
	}
	if got := values(one.receiveN("sad", "new", 11, "")); !slices.Equal(got, numbered("v", 11)) {
		t.Errorf("a new group got %v", got)
	}
	one.settle("ack", rest, "")
	if g := one.group("sad", "old"); g.Lag != 0 {
		t.Errorf("a lag of %d with everything acked", g.Lag)
	}
	var read struct{ Messages []message }
	one.call(200, "GET", "/v1/topics/sad/messages?limit=100", "", &read)
	if got := values(read.Messages); !slices.Equal(got, numbered("v", 11)) {
		t.Errorf("read %v", got)
	}
	one.call(200, "GET", "/v1/topics/sad/messages?direction=backward&limit=100", "", &read)
	if got := values(read.Messages); !slices.Equal(got, numbered("v", 11)) {
		t.Errorf("read backward %v", got)
	}
	one.call(410, "GET", "/v1/topics/sad/messages?partition=0&from=10", "", nil)
	one.call(410, "GET", "/v1/topics/sad/messages?partition=0&from=4294967296", "", nil)
	one.call(200, "GET", "/v1/topics/sad/messages?partition=0&from=4294967306", "", &read)
	if len(read.Messages) != 1 || read.Messages[0].Offset != 10+1<<32 {
		t.Errorf("behind the hole: %+v", read.Messages)
	}
	lost := mq.MessageID{Partition: mq.PartitionID{Topic: mustParse(t, read.Messages[0].ID).Partition.Topic}, Number: 77}
	one.call(410, "GET", "/v1/messages/"+lost.String(), "", nil)
	one.call(410, "GET", "/v1/messages/"+lost.String()+"/trace", "", nil)
	var why struct{ State, Because string }
	one.call(200, "GET", "/v1/messages/"+lost.String()+"/explain?group=old", "", &why)
	if why.State != "lost" || why.Because == "" {
		t.Errorf("a lost offset is explained as %+v", why)
	}
	// A seek into the hole goes to what comes behind it.
	var sought struct {
		Partitions []struct{ To, Lag uint64 }
	}
	one.call(200, "POST", "/v1/topics/sad/groups/old/seek", `{"to":{"offset":77,"partition":0}}`, &sought)
	if len(sought.Partitions) != 1 || sought.Partitions[0].To != 10+1<<32 || sought.Partitions[0].Lag != 1 {
		t.Errorf("sought into the hole: %+v", sought)
	}
	if got := values(one.receiveN("sad", "old", 1, "")); !slices.Equal(got, []string{"v-10"}) {
		t.Errorf("after a seek into the hole: %v", got)
	}
}

func mustParse(t *testing.T, id string) mq.MessageID {
	t.Helper()
	out, err := mq.ParseMessageID(id)
	must(t, err)
	return out
}
