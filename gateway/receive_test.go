package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/bus"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// start sends a request in the background; the channel gives its answer, or nothing if it was given up.
func (e *env) start(ctx context.Context, path, body string) <-chan reply {
	out := make(chan reply, 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.g.URL()+path, strings.NewReader(body))
	e.check(err)
	go func() {
		resp, err := e.client.Do(req)
		if err != nil {
			close(out)
			return
		}
		defer resp.Body.Close()
		b := new(strings.Builder)
		_, _ = fmt.Fprint(b)
		buf := make([]byte, 1<<20)
		for {
			n, err := resp.Body.Read(buf)
			b.Write(buf[:n])
			if err != nil {
				break
			}
		}
		out <- reply{resp.StatusCode, resp.Header, b.String()}
	}()
	return out
}

// waiting returns when n receives wait at the gateway and the leader was asked what is ready since.
func (e *env) waiting(n int) {
	e.t.Helper()
	var asked int
	e.leader.until(e.t, "receives wait", func() bool { asked = e.leader.asked; return e.g.waits.Waiting() == n })
	e.leader.until(e.t, "the leader is asked", func() bool { return e.leader.asked > asked })
}

func TestLongPollWakesByTheBus(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	topic := e.topic("t")
	group, err := e.g.groupToUse(t.Context(), topic, "g")
	e.check(err)
	hints := bus.Connect(e.view, "test", e.g.log)
	defer hints.Close()
	polls := e.start(t.Context(), "/v1/topics/t/groups/g/receive", `{"wait":"30s"}`)
	e.waiting(1)
	// The leader hides from the question of each second, so that only the bus can wake.
	e.leader.with(func() {
		e.leader.refuse = func(f frame.Type, _ mq.PartitionID) error {
			if f == frame.TypeReady {
				return mqerr.New(mqerr.Internal, "not now")
			}
			return nil
		}
	})
	var p api.Published
	e.post("/v1/topics/t/messages", "x").into(t, &p)
	e.leader.until(t, "the bus is connected", hints.Connected)
	hints.PublishWake(topic.ID, bus.Pair{Partition: p.Partition, Group: group.ID})
	var got api.ReceiveAnswer
	if r := <-polls; r.status != 200 || !strings.Contains(r.body, p.ID) {
		t.Errorf("%d %s", r.status, r.body)
	} else {
		r.into(t, &got)
	}
}

// Without a bus that says anything, the question of each second finds what is ready.
func TestMuseum29LostWakeUpsAreFound(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t")
	polls := e.start(t.Context(), "/v1/topics/t/groups/g/receive", `{"wait":"30s"}`)
	e.waiting(1)
	var p api.Published
	e.post("/v1/topics/t/messages", "x").into(t, &p)
	if r := <-polls; r.status != 200 || !strings.Contains(r.body, p.ID) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// A long poll whose client is gone swallows nothing, and neither does one that leaves while its answer is on
// the way.
func TestMuseum41AbandonedLongPollGivesBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	topic := e.topic("t", onePartition)
	ctx, leave := context.WithCancel(t.Context())
	gone := e.start(ctx, "/v1/topics/t/groups/g/receive", `{"wait":"30s"}`)
	e.waiting(1)
	leave()
	<-gone
	e.leader.until(t, "the waiter left", func() bool { return e.g.waits.Waiting() == 0 || e.leaderTick() })
	e.post("/v1/topics/t/messages", "x")

	// The next one leaves when the leader has handed over and before it answers.
	p := mq.PartitionID{Topic: topic.ID}
	handed, answer := make(chan struct{}), make(chan struct{})
	e.leader.with(func() {
		e.leader.cut = func(f frame.Type, _ mq.PartitionID) bool {
			if f == frame.TypeReceive {
				close(handed)
				<-answer
				e.leader.with(func() { e.leader.cut = nil })
			}
			return false
		}
	})
	ctx, leave = context.WithCancel(t.Context())
	gone = e.start(ctx, "/v1/topics/t/groups/g/receive", `{}`)
	<-handed
	leave()
	<-gone
	close(answer)
	e.leader.until(t, "the hand-over came back", func() bool {
		for _, d := range e.leader.part(p).groups {
			return len(d.again) == 1
		}
		return false
	})
	var got api.ReceiveAnswer
	e.post("/v1/topics/t/groups/g/receive", nil).into(t, &got)
	if len(got.Messages) != 1 || got.Messages[0].Attempt != 1 {
		t.Errorf("%+v: the attempt of somebody who was gone was counted", got)
	}
}

// leaderTick lets until look again although the leader did not move.
func (e *env) leaderTick() bool {
	go e.leader.with(func() {})
	return false
}

func TestDrainAnswersLongPolls(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t")
	polls := e.start(t.Context(), "/v1/topics/t/groups/g/receive", `{"wait":"30s"}`)
	e.waiting(1)
	if err := e.g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if r := <-polls; r.status != 200 || r.body != `{"messages":[]}`+"\n" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if e.g.Ready() {
		t.Error("a gateway that stopped says that it is ready")
	}
}

func TestReceiveForms(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", func(s *mq.TopicSettings) { s.Partitions = 2 })
	for i := range 4 {
		e.post("/v1/topics/t/messages", fmt.Sprint(i), "Mq-Partition", fmt.Sprint(i%2))
	}
	receive := func(query, body string, headers ...string) reply {
		return e.post("/v1/topics/t/groups/g/receive"+query, body, headers...)
	}
	if a := receive("?max=1", "", "Accept", "application/x-ndjson"); a.header.Get("Content-Type") != ndjson || strings.Count(a.body, "\n") != 1 || !strings.HasPrefix(a.body, `{"id":`) {
		t.Errorf("lines: %s", a.body)
	}
	var got api.ReceiveAnswer
	if a := receive("", `{"partitions":[1]}`); true {
		a.into(t, &got)
		for _, m := range got.Messages {
			if m.Partition != 1 {
				t.Errorf("partition %d was not asked for", m.Partition)
			}
		}
	}
	if a := receive("?max=1&raw=true", "", "Accept", "*/*"); a.status != 200 || a.header.Get("Mq-Attempt") != "1" || a.header.Get("Mq-Partition") != "0" {
		t.Errorf("raw: %d %v %s", a.status, a.header, a.body)
	}
	for query, code := range map[string]string{"?max=0": "invalid_parameter", "?max=10001": "invalid_parameter", "?wait=31s": "invalid_parameter",
		"?wait=5": "invalid_parameter", "?raw=true&max=2": "invalid_parameter", "?encoding=utf16": "invalid_parameter", "?max=99999999999999999999": "invalid_parameter"} {
		if a := receive(query, ""); a.status != 400 || a.code(t) != code {
			t.Errorf("%s: %d %s", query, a.status, a.body)
		}
	}
	for body, want := range map[string]int{`{"max":-1}`: 422, `{"max":"x"}`: 422, `{"lease":"1ms"}`: 422, `{"partitions":[2]}`: 404, `{"wat":1}`: 422, `[`: 400, `{"wait":"30m"}`: 422} {
		if a := receive("", body); a.status != want {
			t.Errorf("%s: %d %s, want %d", body, a.status, a.body, want)
		} else {
			a.code(t)
		}
	}
}

// A partition that is newer than the group learns of it, and a leader that forgot.
func TestLeaderLearnsOfAGroup(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	e.leader.with(func() { e.leader.forget = true })
	e.post("/v1/topics/t/messages", "x")
	var got api.ReceiveAnswer
	if a := e.post("/v1/topics/t/groups/g/receive", nil); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	} else if a.into(t, &got); len(got.Messages) != 1 {
		t.Errorf("%s", a.body)
	}
}
