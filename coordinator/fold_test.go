package coordinator

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// What the clock of who deleted a topic says is not taken alone: it may be hours behind, or the controller's own ahead, and who writes
// something of the topic would find no tombstone.
func TestTombstonesRestWhateverClocksSay(t *testing.T) {
	k := &controller{}
	began := time.Now()
	ancient := meta.Topic{ID: 1, Deleted: true, DeletedAt: began.Add(-5 * time.Hour)}
	late := meta.Topic{ID: 2, Deleted: true, DeletedAt: began.Add(-5 * time.Hour)}
	ahead := meta.Topic{ID: 3, Deleted: true, DeletedAt: began.Add(5 * time.Hour)}
	at := func(after time.Duration, there []meta.Topic, want ...mq.TopicID) {
		t.Helper()
		var got []mq.TopicID
		for _, x := range k.foldable(there, began.Add(after)) {
			got = append(got, x.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("after %s: %v, want %v", after, got, want)
		}
	}
	at(0, []meta.Topic{ancient, ahead})
	at(foldRest-1, []meta.Topic{ancient, late, ahead})
	at(foldRest, []meta.Topic{ancient, late, ahead}, 1)
	at(2*foldRest, []meta.Topic{late, ahead}, 2)
	at(3*foldRest, []meta.Topic{ancient, ahead}) // another one of its number would be new
	if len(k.tombs) != 2 {
		t.Errorf("%v are remembered", k.tombs)
	}
}

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
