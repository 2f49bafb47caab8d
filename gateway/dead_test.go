package gateway

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// DeadLetters of the fake: every partition has as many dead letters as its dead field says, at the offsets 0, 1, ...;
// those of a partition whose number is in broken can't be asked.
func (n *fakeNode) DeadLetters(_ context.Context, r *mqpb.DeadLettersRequest) (*mqpb.DeadLettersResponse, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deadCalls = append(n.deadCalls, r)
	p := r.GetPartition().GetNumber()
	if p == n.deadBroken {
		return nil, mqpb.Status(mqerr.New(mqerr.NoLeader, "broken"))
	}
	left := n.deadLetters[p] - r.GetFrom()
	out := &mqpb.DeadLettersResponse{Matched: min(left, uint64(r.GetLimit()))}
	out.Next = r.GetFrom() + out.Matched
	out.More = out.Matched < left
	return out, nil
}

func TestRedriveCountsWhatLeadersMoved(t *testing.T) {
	t.Parallel()
	h := startHarness(t)
	id := h.topic("orders", `{"partitions":3}`)
	const path = "/v1/topics/orders/groups/g"
	h.ok(201, "PUT", path, "")
	h.node.set(func() { h.node.deadLetters, h.node.deadBroken = map[uint32]uint64{0: 12_000, 1: 0, 2: 5}, 99 })

	began := time.Now()
	got := decodeAs[api.DeadResult](t, h.ok(200, "POST", path+"/redrive", `{"rate":1000}`))
	if got.Messages != 12_005 || got.More || got.Partial || len(got.Partitions) != 2 || got.Partitions[1].Partition != 2 {
		t.Errorf("all of them: %+v", got)
	}
	if at := got.ReadyBy.Add(-12 * time.Second); at.Before(began) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("12,005 at 1,000 a second are ready by %s, having begun at %s", got.ReadyBy, began)
	}
	h.node.set(func() {
		// Two pages of partition 0, one of the others; the second begins where the first ended, by place and by time.
		if len(h.node.deadCalls) != 4 || h.node.deadCalls[1].GetFrom() != 10_000 || h.node.deadCalls[1].GetDelay() != int64(10*time.Second) ||
			h.node.deadCalls[3].GetDelay() != int64(12*time.Second) || h.node.deadCalls[0].GetInterval() != int64(time.Millisecond) {
			t.Errorf("calls: %v", h.node.deadCalls)
		}
		h.node.deadCalls = nil
	})
	if got := decodeAs[api.DeadResult](t, h.ok(200, "POST", path+"/redrive?dry_run=true", `{"limit":7}`)); got.Messages != 7 || !got.More || !got.DryRun {
		t.Errorf("a dry run of seven: %+v", got)
	}
	h.node.set(func() {
		if len(h.node.deadCalls) != 1 || h.node.deadCalls[0].GetAct() != "count" {
			t.Errorf("a dry run calls %v", h.node.deadCalls)
		}
		h.node.deadBroken = 2
	})
	impatient := h.impatient()
	part := decodeAs[api.DeadResult](t, impatient.ok(207, "DELETE", path+"/dead", ""))
	if part.Messages != 12_000 || !part.Partial || part.Partitions[1].Error == nil || part.Partitions[1].Error.Code != "no_leader" {
		t.Errorf("one partition can't be asked: %+v", part)
	}
	of := func(p uint32) string {
		return mq.MessageID{Partition: mq.PartitionID{Topic: id, Number: p}, Number: 3}.String()
	}
	impatient.fails("no_leader", "", "DELETE", path+"/dead?ids="+of(2), "")
	h.ok(200, "DELETE", path+"/dead?ids="+of(0)+","+of(0), "")
	h.node.set(func() {
		last := h.node.deadCalls[len(h.node.deadCalls)-1]
		if f := last.GetFilter(); !f.GetByOffset() || len(f.GetOffsets()) != 1 || f.GetOffsets()[0] != 3 {
			t.Errorf("by id: %v", last)
		}
	})
	scheduled := mq.MessageID{Partition: mq.PartitionID{Topic: id, Number: 0}, Scheduled: true, Number: 7}.String()
	h.ok(200, "DELETE", path+"/dead?ids="+of(0)+","+scheduled, "")
	h.node.set(func() {
		last := h.node.deadCalls[len(h.node.deadCalls)-1]
		if f := last.GetFilter(); !slices.Equal(f.GetOffsets(), []uint64{3}) || !slices.Equal(f.GetNumbers(), []uint64{7}) {
			t.Errorf("by the id of a scheduled one: %v", last)
		}
	})
	for body, field := range map[string]string{`{"rate":0.001}`: "/rate", `{"rate":-1}`: "/rate", `{"filter":{"ids":["x"]}}`: "/filter/ids",
		`{"filter":{"died_after":"2026-01-02T00:00:00Z","died_before":"2026-01-01T00:00:00Z"}}`: "/filter/died_before", `{"limits":1}`: "/limits", `{"limit":0}`: "/limit"} {
		h.fails("validation_failed", field, "POST", path+"/redrive", body)
	}
	h.fails("invalid_parameter", "query/died_after", "DELETE", path+"/dead?died_after=yesterday", "")
	h.fails("group_not_found", "", "POST", "/v1/topics/orders/groups/none/redrive", "")
}

// What is said and empty is a mistake of the caller: it must not choose everything.
func TestEmptyDeadFilterIsRefused(t *testing.T) {
	t.Parallel()
	h := startHarness(t)
	h.topic("orders", `{"partitions":1}`)
	const path = "/v1/topics/orders/groups/billing"
	h.ok(201, "PUT", path, "")
	for _, query := range []string{"reason=", "ids=", "limit=", "died_before=", "died_after=", "died_before=0001-01-01T00:00:00Z",
		"died_before=1970-01-01T00:00:00Z", "died_after=9000-01-01T00:00:00Z"} {
		if a := h.call("DELETE", path+"/dead?"+query, ""); a.status != 400 && a.status != 422 {
			t.Errorf("DELETE with %s: %d %s", query, a.status, a.body)
		}
	}
	for body, field := range map[string]string{`{"filter":{"reason":""}}`: "/filter/reason", `{"filter":{"ids":[]}}`: "/filter/ids", `{"rate":0}`: "/rate",
		`{"filter":{"died_before":"0001-01-01T00:00:00Z"}}`: "/filter/died_before",
		`{"filter":{"died_after":"1970-01-01T00:00:00Z"}}`:  "/filter/died_after",
		`{"filter":{"died_before":"9000-01-01T00:00:00Z"}}`: "/filter/died_before"} {
		h.fails("validation_failed", field, "POST", path+"/redrive", body)
	}
	h.node.set(func() {
		if len(h.node.deadCalls) != 0 {
			t.Errorf("a leader was asked: %v", h.node.deadCalls)
		}
	})
}
