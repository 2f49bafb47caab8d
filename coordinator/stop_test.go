package coordinator

import (
	"fmt"
	"sync"
	"testing"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// TestStopFinishesWhatWasBegun: coordinators that are all stopped while a segment is being sealed open the next one before they
// go. Otherwise the partition would have no leader until they are back.
func TestStopFinishesWhatWasBegun(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			cfgs := configs(t, n)
			coordinators := startAll(t, cfgs...)
			c := newCluster(t, 1, coordinators...)
			p := mq.PartitionID{Topic: c.topic("orders", 1).ID}
			first := *c.head(p).Open
			name, err := c.store.Controller(c.ctx)
			if err != nil {
				t.Fatal(err)
			}
			node := c.nodes[first.Leader.Store]
			node.append(first.ID, at(3))
			var stopping sync.WaitGroup
			var once sync.Once
			begun := make(chan struct{})
			node.with(func() {
				node.sealing = func() {
					once.Do(func() {
						defer close(begun)
						for _, x := range coordinators {
							stopping.Go(func() { stopped(t, x) })
						}
						c.wait("the controller is told to stop", func(v *meta.View) bool {
							for _, x := range v.Coordinators() {
								if x.Name == name {
									return false
								}
							}
							return true
						})
					})
				}
			})
			report, err := c.store.Register(c.ctx, meta.ReportKey(node.store),
				meta.Report{Store: node.store, SealWanted: []mq.SegmentID{first.ID}}, leaseTTL, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer report.Close()
			<-begun
			stopping.Wait()
			made := mq.SegmentID(0)
			node.with(func() {
				for id := range node.segments {
					made = max(made, mq.SegmentID(id))
				}
			})
			startAll(t, cfgs...)
			h := c.head(p)
			if h.Open.ID != made || h.Open.Number != 2 || h.Open.Base != at(3) {
				t.Errorf("open is %+v, and the coordinators had node %s make segment %d before they stopped", h.Open, node.name, made)
			}
		})
	}
}
