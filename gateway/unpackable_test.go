package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// A batch whose body can't be unpacked does not spoil what lies beside it: its messages fail, and the others come.
func TestBodyThatCannotBeUnpackedFailsItsMessagesOnly(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	topic := e.topic("t", onePartition)
	if a := e.post("/v1/topics/t/groups/g/receive", ""); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := e.post("/v1/topics/t/messages", "before"); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var broken mq.BatchBuilder
	for range 2 {
		broken.Add(&mq.Message{Value: []byte("lost")})
	}
	e.leader.with(func() {
		_, err := e.leader.append(&frame.Append{Partition: part(topic.ID, 0), Batch: broken.AppendTo(nil, "", "g", mq.CodecZstd, []byte("no zstd"))})
		e.check(err)
	})
	if a := e.post("/v1/topics/t/messages", "after"); a.status != 201 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a := e.post("/v1/topics/t/groups/g/receive?max=10", "")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "2 messages can't be unpacked") {
		t.Errorf("with two that can't be unpacked: %d %s", a.status, a.body)
	}
	// Nobody answers that something is given back, so the leader hears of it when it does.
	e.leader.until(t, "what can't be unpacked counts, and what lies beside it is back and does not", func() bool {
		var attempts []uint32
		for _, d := range e.leader.part(part(topic.ID, 0)).groups {
			for o := range uint64(4) {
				attempts = append(attempts, d.attempt[o])
			}
		}
		return slices.Equal(attempts, []uint32{0, 1, 1, 0})
	})
	e.leader.with(func() {
		for _, d := range e.leader.part(part(topic.ID, 0)).groups {
			d.again = slices.DeleteFunc(d.again, func(o uint64) bool { return o == 1 || o == 2 }) // they wait
		}
	})
	a = e.post("/v1/topics/t/groups/g/receive?max=10", "")
	if a.status != 200 || !strings.Contains(a.body, `"before"`) || !strings.Contains(a.body, `"after"`) {
		t.Errorf("the others: %d %s", a.status, a.body)
	}
}
