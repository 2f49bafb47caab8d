package openapitest

import (
	"testing"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// What can be done with a group at work, held against the document.
func TestGroupsAtWorkFitTheDocument(t *testing.T) {
	l := newLive(t)
	partitions := uint32(1)
	_, err := l.c.CreateTopic(l.ctx, "orders", api.TopicInput{Partitions: &partitions})
	l.must(err)
	_, err = l.c.PublishBatch(l.ctx, "orders", []client.Message{{Value: []byte("a")}, {Value: []byte("b")}, {Value: []byte("c")}})
	l.must(err)
	most := 10
	_, err = l.c.CreateGroup(l.ctx, "orders", "billing", api.GroupInput{Dead: &api.DeadLimitsInput{MaxCount: &most}})
	l.must(err)
	got, err := l.c.Receive(l.ctx, "orders", "billing", api.ReceiveRequest{Max: 3})
	l.must(err)
	for _, m := range got {
		l.must(l.c.Reject(l.ctx, m.Receipt, "never"))
	}
	const group = "/v1/topics/orders/groups/billing"
	l.call(200, "GET", group+"/dead?reason=never&died_after=2026-01-01T00:00:00Z", "")
	l.call(200, "POST", group+"/redrive?dry_run=true", "")
	l.call(200, "POST", group+"/redrive", `{"filter":{"ids":["`+got[0].ID+`"]}}`)
	l.call(200, "POST", group+"/redrive", `{"rate":0.5,"limit":1}`)
	l.call(422, "POST", group+"/redrive", `{"filter":{"ids":["nonsense"]}}`)
	l.call(200, "DELETE", group+"/dead?ids="+got[2].ID+"&dry_run=true", "")
	l.call(200, "DELETE", group+"/dead", "")

	l.call(201, "POST", group+"/snapshots", `{"name":"before"}`)
	l.call(412, "POST", group+"/snapshots", `{"name":"before"}`)
	l.call(200, "GET", group+"/snapshots", "")
	l.call(200, "GET", group+"/snapshots/before", "")
	l.call(200, "POST", group+"/seek?dry_run=true", `{"to":"earliest"}`)
	l.call(200, "POST", group+"/seek", `{"to":{"offset":1,"partition":0}}`)
	l.call(200, "POST", group+"/seek", `{"to":{"time":"2026-01-01T00:00:00Z"}}`)
	l.call(200, "POST", group+"/seek", `{"to":{"snapshot":"before"}}`)
	l.call(416, "POST", group+"/seek", `{"to":{"offset":99,"partition":0}}`)
	l.call(200, "DELETE", group+"/snapshots/before", "")
	l.call(404, "DELETE", group+"/snapshots/before", "")
	l.call(200, "PUT", group, `{"filter":{"type":{"prefix":"order."},"region":["eu","us"],"tenant":"acme"}}`)
	l.call(200, "GET", group, "")
}
