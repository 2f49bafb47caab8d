package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Messages that may go to any partition are stored in one that takes them, whichever call they come by, and not a batch of them
// is tried in vain again within the next moments; what belongs to the damaged partition fails, by the topic's name.
func TestKeylessMessagesAvoidAPartitionThatTakesNone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", func(s *mq.TopicSettings) { s.Partitions = 3 })
	refused := 0
	e.leader.with(func() {
		e.leader.refuse = func(f frame.Type, p mq.PartitionID) error {
			if p.Number == 1 || (f != frame.TypeAppend && f != frame.TypeSchedule) {
				return nil
			}
			refused++
			return mqerr.New(mqerr.PartitionDamaged, "the partition is damaged")
		}
	})
	one := func(a reply, want int) {
		t.Helper()
		var p api.Published
		if a.into(t, &p); a.status != want || p.Partition != 1 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
	began := e.g.elapsed()
	for range 20 {
		one(e.post("/v1/topics/t/messages", "x"), 201)
	}
	one(e.call("POST", "/v1/topics/t/messages", "x", "Mq-Delay", "1h"), 202)
	for _, contentType := range []string{"application/json", "application/x-ndjson"} {
		body := `{"messages":[{"value":"a"},{"value":"b"}]}`
		if contentType != "application/json" {
			body = `{"value":"a"}` + "\n" + `{"value":"b"}` + "\n"
		}
		a := e.call("POST", "/v1/topics/t/messages/batch", body, "Content-Type", contentType)
		if a.status != 200 || strings.Count(a.body, `"partition":1`) != 2 {
			t.Errorf("%s: %d %s", contentType, a.status, a.body)
		}
	}
	looks := int((e.g.elapsed()-began)/refusedFor) + 1 // of each partition, as far as time has passed
	e.leader.with(func() {
		if refused > 2*looks {
			t.Errorf("%d batches were offered to the two partitions that take none", refused)
		}
	})
	for _, p := range []int{0, 2} {
		a := e.call("POST", "/v1/topics/t/messages", "x", "Mq-Partition", fmt.Sprint(p))
		if want := fmt.Sprintf("partition %d of topic t: the partition is damaged", p); a.status != 503 || !strings.Contains(a.body, want) {
			t.Errorf("a message for partition %d: %d %s", p, a.status, a.body)
		}
	}
}

// When all partitions refuse, the last one's reason is the answer; none is asked twice by one request.
func TestEveryPartitionRefuses(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", func(s *mq.TopicSettings) { s.Partitions = 3 })
	asked := map[uint32]int{}
	e.leader.with(func() {
		e.leader.refuse = func(_ frame.Type, p mq.PartitionID) error {
			asked[p.Number]++
			return mqerr.New(mqerr.StorageFull, "full")
		}
	})
	if a := e.post("/v1/topics/t/messages", "x"); a.status != http.StatusInsufficientStorage {
		t.Errorf("%d %s", a.status, a.body)
	}
	e.leader.with(func() {
		if len(asked) != 3 || asked[0]+asked[1]+asked[2] != 3 {
			t.Errorf("asked %v", asked)
		}
	})
}

// What is remembered ends, and has a bound.
func TestRefusalsAreForgotten(t *testing.T) {
	var r refusals
	for i := range uint32(2 * maxRefused) {
		r.note(mq.PartitionID{Topic: 1, Number: i}, 0)
	}
	if len(r.until) != maxRefused {
		t.Errorf("%d are remembered", len(r.until))
	}
	p := mq.PartitionID{Topic: 1}
	if !r.has(p, refusedFor-1) || r.has(p, refusedFor) {
		t.Error("a refusal is not passed over for as long as it should be")
	}
	if r.some.Load() || len(r.until) > 0 {
		t.Error("nothing is left and publishes still look")
	}
	late := mq.PartitionID{Topic: 2}
	for i := range uint32(maxRefused - 1) {
		r.note(mq.PartitionID{Topic: 1, Number: i}, refusedFor)
	}
	r.note(late, 2*refusedFor-1)
	if r.note(p, 2*refusedFor); len(r.until) != 2 || !r.has(late, 2*refusedFor) || !r.has(p, 2*refusedFor) {
		t.Errorf("%d are remembered after the others are over", len(r.until))
	}
}

// What can't be in an archive is refused for good, and looked for as soon as there may be one.
func TestArchivedOfATopicWithoutArchive(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	topic := e.topic("t")
	id := mq.MessageID{Partition: mq.PartitionID{Topic: topic.ID}}.String()
	paths := []string{"/v1/topics/t/messages", "/v1/messages/" + id, "/v1/messages/" + id + "/trace"}
	for _, path := range paths {
		if a := e.call("GET", path+"?include_archived=true", nil); a.status != 400 || !strings.Contains(a.body, `"pointer":"query/include_archived"`) || !strings.Contains(a.body, `"retryable":false`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	node, err := e.store.Register(t.Context(), meta.NodeKey("node-2"), meta.Node{Name: "node-2", Store: "2222", Boot: 1, Addr: "127.0.0.1:1", Archives: true}, time.Minute, nil)
	e.check(err)
	t.Cleanup(node.Close)
	e.leader.with(func() {
		e.leader.refuse = func(frame.Type, mq.PartitionID) error { return mqerr.New(mqerr.Internal, "asked") }
	})
	e.check(e.g.view.WaitFor(t.Context(), func(v *meta.View) bool { return len(v.Nodes()) == 2 }))
	for _, path := range paths {
		if a := e.call("GET", path+"?include_archived=true", nil); strings.Contains(a.body, "query/include_archived") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}
