package coordinator

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// Tombstones of long ago are folded by the controller, those of just now are not, and none is forgotten.
func TestOldTombstonesAreFolded(t *testing.T) {
	all := startAll(t, configs(t, 1)...)
	c := newCluster(t, 1, all...)
	etcd := v3client.New(all[0].etcd.server.Server)
	const old = 3*40 + 1 // more than one transaction's worth
	for i := range old {
		topic := meta.Topic{Name: fmt.Sprintf("old-%d", i), ID: mq.TopicID(1000 + 2*i), Deleted: true, DeletedAt: time.Now().Add(-2 * foldAfter)}
		text, err := json.Marshal(topic)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := etcd.Put(c.ctx, fmt.Sprintf("/deleted/%d", topic.ID), string(text)); err != nil {
			t.Fatal(err)
		}
	}
	young := c.topic("young", 1)
	if err := c.store.DeleteTopic(c.ctx, "young", 0); err != nil {
		t.Fatal(err)
	}
	c.wait("the old ones to be folded", func(v *meta.View) bool {
		left := v.DeletedTopics()
		return len(left) == 1 && left[0].ID == young.ID
	})
	if d := c.view.Deletions(); d.Count() != old+1 || !d.Has(1000) || d.Has(1001) || !d.Has(1000+2*(old-1)) || !d.Has(young.ID) {
		t.Errorf("%d deletions are known", d.Count())
	}
}
