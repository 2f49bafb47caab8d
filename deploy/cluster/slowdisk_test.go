package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode"
	"github.com/splashdam/splashdam/shared/api"
)

// disks lets the disks of a cluster's nodes hang, or take a while for what they write.
type disks struct {
	mu      sync.Mutex
	hanging map[string]chan struct{} // closed to let go
	rate    atomic.Int64             // of all, in bytes a second; 0: as quick as they are
}

func (d *disks) options() Options {
	d.hanging = map[string]chan struct{}{}
	return Options{Nodes: 3, NodeConfig: func(_ int, cfg *lognode.Config) {
		name := cfg.Name
		cfg.BallastBytes, cfg.VolumeBytes = 1<<20, 64<<20
		cfg.BeforeSync = func(bytes int64) {
			d.mu.Lock()
			hangs := d.hanging[name]
			d.mu.Unlock()
			if hangs != nil {
				<-hangs
			}
			if rate := d.rate.Load(); rate > 0 {
				<-time.After(time.Duration(bytes) * time.Second / time.Duration(rate))
			}
		}
	}}
}

// hang lets a node's disk hang until the answer is called.
func (d *disks) hang(name string) (release func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := make(chan struct{})
	d.hanging[name] = c
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.hanging, name)
		close(c)
	})
}

// slow are the nodes that say that their disk is.
func (c caller) slow() (out []string) {
	var cl api.Cluster
	c.call(200, "GET", "/v1/cluster", "", &cl)
	for _, n := range cl.Nodes {
		if n.SlowDisk {
			out = append(out, n.Name)
		}
	}
	return out
}

// publishLarge publishes n messages of nearly 1 MB side by side until all are acknowledged, and returns what they are.
func publishLarge(t *testing.T, c caller, topic, name string, n int) (out []string) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		value := fmt.Sprintf("%s-%02d ", name, i) + strings.Repeat("x", 900_000)
		out = append(out, value)
		wg.Go(func() { publishAnyway(t, c, topic, value) })
	}
	wg.Wait()
	return out
}

// A leader whose disk hangs goes on with its followers' disks. When publishers come to wait for its own it gives the partition
// away, though it can't keep its registration and serves; then all goes on while the disk still hangs, and nothing is lost.
func TestEndSlowDiskGivesUpLeading(t *testing.T) {
	t.Parallel()
	var d disks
	c := start(t, d.options())
	one := via(t, c, 1)
	one.topic("slow", `{"partitions":1,"replicas":3}`)
	want := []string{"before"}
	one.publish("slow", want[0])
	was := one.leader("slow", 0)
	release := d.hang(was)
	defer release()
	for i := range 30 { // they don't wait for that disk
		want = append(want, fmt.Sprint("small-", i))
		publishAnyway(t, one, "slow", want[len(want)-1])
	}
	want = append(want, publishLarge(t, one, "slow", "large", 24)...) // and of these it takes 8 MiB
	if now := one.leader("slow", 0); now == was {
		t.Fatalf("%s still leads, with 20 MB that its disk has not written", was)
	}
	want = append(want, publishLarge(t, one, "slow", "later", 12)...)
	release()
	eventually(t, was+" says that its disk is slow", func() bool { return slices.Equal(one.slow(), []string{was}) })
	slices.Sort(want)
	var got []string
	for len(got) < len(want) {
		messages := one.receiveN("slow", "g", 1, "")
		got = append(got, values(messages)...)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%d messages received, want %d, or they differ", len(got), len(want))
	}
	if now := one.leader("slow", 0); now == was {
		t.Errorf("%s leads again", was)
	}
}

// Where all three disks are as slow as one another no leader moves, though publishers wait for them.
func TestEndEquallySlowDisksMoveNothing(t *testing.T) {
	t.Parallel()
	var d disks
	c := start(t, d.options())
	one := via(t, c, 1)
	one.topic("even", `{"partitions":1,"replicas":3}`)
	one.publish("even", "before")
	was := one.leader("even", 0)
	d.rate.Store(2 << 20)
	publishLarge(t, one, "even", "large", 24)
	if now, slow := one.leader("even", 0), one.slow(); now != was || len(slow) > 0 {
		t.Errorf("led by %s, now by %s; disks said to be slow: %v", was, now, slow)
	}
}
