package cluster

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

var manyPartitions = flag.Int("many-partitions", 60, "partitions of the test in which a node dies; 10000 is the run of docs/BENCHMARKS.md")

// perTopic is how many partitions one topic gets in it.
const perTopic = 1000

// many is a cluster with many partitions, over several topics.
type many struct {
	t      *testing.T
	c      *Cluster
	one    caller
	topics []int // how many partitions each has
}

func (m *many) make(partitions int) {
	for left := partitions; left > 0; left -= perTopic {
		n := min(left, perTopic)
		m.one.topic(fmt.Sprint("t", len(m.topics)), fmt.Sprintf(`{"partitions":%d,"replicas":3}`, n))
		m.topics = append(m.topics, n)
	}
}

// publishAll publishes one message to every partition, again and again where that fails, until all have taken one.
func (m *many) publishAll(value string) {
	m.t.Helper()
	for i, n := range m.topics {
		left := make([]int, n)
		for p := range left {
			left[p] = p
		}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(5 * hang); len(left) > 0; <-tick.C {
			if time.Now().After(deadline) {
				m.t.Fatalf("topic %d: %d partitions take nothing", i, len(left))
			}
			left = m.publishSome(i, left, value)
		}
	}
}

// publishSome publishes to some partitions of a topic, and returns those that did not take it.
func (m *many) publishSome(topic int, to []int, value string) (left []int) {
	m.t.Helper()
	type one struct {
		Value     string `json:"value"`
		Partition int    `json:"partition"`
	}
	batch := map[string][]one{}
	for _, p := range to {
		batch["messages"] = append(batch["messages"], one{value, p})
	}
	body, err := json.Marshal(batch)
	must(m.t, err)
	ctx, cancel := context.WithTimeout(m.t.Context(), hang)
	defer cancel()
	status, text, err := m.one.try(ctx, "POST", fmt.Sprintf("/v1/topics/t%d/messages/batch", topic), string(body))
	must(m.t, err)
	var answer struct {
		Results []struct{ ID string }
	}
	if status >= 300 || json.Unmarshal(text, &answer) != nil || len(answer.Results) != len(to) {
		return to
	}
	for i, r := range answer.Results {
		if r.ID == "" {
			left = append(left, to[i])
		}
	}
	return left
}

// cluster is what the gateway knows of it.
func (m *many) cluster() (out api.Cluster) {
	m.one.call(200, "GET", "/v1/cluster", "", &out)
	return out
}

// processor is the processor time that each process of the cluster has had; 0 where the system does not tell.
func (m *many) processor() map[string]time.Duration {
	each := map[string]time.Duration{}
	for _, members := range [][]*Member{m.c.coordinators, m.c.nodes, m.c.gateways} {
		for _, x := range members {
			if run, ok := x.run.(*process); ok {
				each[x.Name()] = processorOf(run.cmd.Process.Pid)
			}
		}
	}
	return each
}

// rest waits a while in which nothing happens, and logs what share of a core that takes, of all processes and of each.
func (m *many) rest(d time.Duration) {
	before := m.processor()
	<-time.After(d)
	all, each := 0.0, []string{}
	for name, used := range m.processor() {
		share := 100 * float64(used-before[name]) / float64(d)
		all, each = all+share, append(each, fmt.Sprintf("%s %.1f", name, share))
	}
	slices.Sort(each)
	m.t.Logf("while nothing happens: %.1f %% of a core over %s (%s)", all, d, strings.Join(each, ", "))
}

// processorOf reads the system's account of a process, in ticks of 10 ms.
func processorOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var user, system time.Duration
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0
	}
	return (user + system) * 10 * time.Millisecond
}

// One of three nodes is killed: all partitions that it led are led again, and take messages. What that took is logged and
// not judged here.
func TestEndNodeOfManyPartitionsDies(t *testing.T) {
	t.Parallel()
	c := start(t, Options{Processes: &Processes{}, Nodes: 3})
	m := &many{t: t, c: c, one: via(t, c, 1)}
	began := time.Now()
	m.make(*manyPartitions)
	m.publishAll("before")
	t.Logf("%d partitions in %d topics made, and one message in each, after %s", *manyPartitions, len(m.topics), time.Since(began).Round(10*time.Millisecond))
	if *manyPartitions >= perTopic {
		m.rest(30 * time.Second)
	}
	dead := c.Node(1)
	led := 0
	for _, n := range m.cluster().Nodes {
		if n.Name == dead.Name() {
			led = n.Leads
		}
	}
	must(t, dead.Kill())
	began = time.Now()
	named := func() bool {
		now := m.cluster()
		for _, n := range now.Nodes {
			if n.Name == dead.Name() && n.Leads > 0 {
				return false
			}
		}
		return now.Partitions.WithLeader == *manyPartitions
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for ; !named(); <-tick.C {
		if time.Since(began) > 5*hang {
			t.Fatalf("not all partitions are led again: %+v", m.cluster())
		}
		<-time.After(100 * time.Millisecond) // each answer has the gateway look through all partitions
	}
	t.Logf("%s led %d of them and was killed: others lead all of them after %s", dead.Name(), led, time.Since(began).Round(10*time.Millisecond))
	m.publishAll("after")
	t.Logf("and every partition has taken a message after %s", time.Since(began).Round(10*time.Millisecond))
}
