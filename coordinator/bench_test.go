package coordinator

import (
	"fmt"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// BenchmarkFailover measures how long 10,000 partitions take to open, and to be led again after one of three nodes
// died, with log nodes that answer at once: go test -run '^$' -bench Failover -benchtime 1x ./coordinator
func BenchmarkFailover(b *testing.B) {
	const topics, partitions = 10, 1000
	for range b.N {
		b.StopTimer()
		c := newCluster(b, 3, startAll(b, configs(b, 1)...)...)
		c.wait("the nodes", func(v *meta.View) bool { return len(v.Nodes()) == 3 })
		s := mq.DefaultTopicSettings()
		s.Partitions = partitions
		begin := time.Now()
		for i := range topics {
			if _, err := c.store.CreateTopic(c.ctx, fmt.Sprint("t", i), s); err != nil {
				b.Fatal(err)
			}
		}
		led := func(dead mq.StoreID) func(v *meta.View) bool {
			return func(v *meta.View) bool {
				heads := v.AllHeads()
				for _, h := range heads {
					if h.Open == nil || h.Open.Leader.Store == dead {
						return false
					}
				}
				return len(heads) == topics*partitions
			}
		}
		c.wait("all partitions", led(""))
		b.ReportMetric(time.Since(begin).Seconds(), "s-to-open")
		dead := mq.StoreID("11111111111111111111111111111111")
		b.StartTimer()
		begin = time.Now()
		c.nodes[dead].die()
		c.wait("other leaders", led(dead))
		b.ReportMetric(time.Since(begin).Seconds(), "s-to-fail-over")
		b.StopTimer()
	}
}
