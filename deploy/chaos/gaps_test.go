package chaos

import (
	"sync"
	"time"
)

// gap is a time in which a partition acknowledged nothing to its producer.
type gap struct {
	partition int
	length    time.Duration
}

// gaps are the times between acknowledged publishes, by partition and by the fault that was the last to begin.
type gaps struct {
	mu    sync.Mutex
	last  []time.Time // of the last acknowledgement of each partition
	acks  []int       // publishes acknowledged in each partition
	since []time.Duration
	fault string
	worst map[string]gap
}

func newGaps(partitions int, now time.Time) *gaps {
	g := &gaps{last: make([]time.Time, partitions), acks: make([]int, partitions),
		since: make([]time.Duration, partitions), worst: map[string]gap{}, fault: "no fault"}
	for i := range g.last {
		g.last[i] = now
	}
	return g
}

// acked files an acknowledged publish.
func (g *gaps) acked(partition int, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	length := now.Sub(g.last[partition])
	g.last[partition] = now
	g.acks[partition]++
	g.since[partition] = max(g.since[partition], length)
	if length > g.worst[g.fault].length {
		g.worst[g.fault] = gap{partition, length}
	}
}

// begin says that a fault begins: gaps that end from now on are its.
func (g *gaps) begin(fault string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fault = fault
	clear(g.since)
}

// lengths are the longest gaps of each partition that ended since the fault began.
func (g *gaps) lengths() []time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]time.Duration(nil), g.since...)
}

// counts are the acknowledged publishes of each partition.
func (g *gaps) counts() []int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]int(nil), g.acks...)
}

// grew says whether every partition acknowledged more since before.
func (g *gaps) grew(before []int) bool {
	for i, n := range g.counts() {
		if n <= before[i] {
			return false
		}
	}
	return true
}

// grewSince says whether each of the partitions acknowledged n more publishes since before.
func (g *gaps) grewSince(before []int, partitions []int, n int) bool {
	now := g.counts()
	for _, p := range partitions {
		if now[p] < before[p]+n {
			return false
		}
	}
	return true
}

// byFault is the longest gap of each kind of fault.
func (g *gaps) byFault() map[string]gap {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := make(map[string]gap, len(g.worst))
	for k, v := range g.worst {
		out[k] = v
	}
	return out
}
