package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
)

func same(t *testing.T, got, want string) {
	t.Helper()
	want = strings.TrimPrefix(want, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line has %d columns: %s", n, line)
		}
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestTopicsTable(t *testing.T) {
	list := []api.TopicSummary{
		{Name: "orders", State: "ready", PartitionCount: 4, Messages: 1200, Bytes: 1_250_000, PublishRate: 10.25, DeliverRate: 9},
		{Name: "a-topic-with-a-name-that-goes-on-for-longer-than-there-is-room", State: "opening", PartitionCount: 16, Messages: 5, Bytes: 999, Partial: true},
	}
	// 80 columns: the first column gets what the others leave, 80 - (7+5+8+6+4+5) - 6 gaps of 2 = 33.
	same(t, renderTopics(list, 80, plain), `
TOPIC                              STATE    PARTS  MESSAGES    SIZE  IN/S  OUT/S
orders                             ready        4      1200  1.2 MB  10.2    9.0
a-topic-with-a-name-that-goes-on…  opening     16        5+   999 B   0.0    0.0
+: at least; not every partition's leader has answered
`)
	same(t, renderTopics(nil, 80, plain), "no topics\n")
	if wide := renderTopics(list, 0, plain); !strings.Contains(wide, "longer-than-there-is-room  opening") {
		t.Errorf("the wide form cuts:\n%s", wide)
	}
}

func TestTopicDescription(t *testing.T) {
	topic := api.Topic{
		TopicSummary: api.TopicSummary{Name: "orders", State: "degraded", Created: noon, Messages: 30, Bytes: 4096, PublishRate: 1, DeliverRate: 2},
		Settings: mq.TopicSettings{Partitions: 2, Replicas: 3, Quorum: 2, MaxMessageBytes: 1 << 20, Compression: "none",
			Retention: mq.Retention{Time: mq.Duration(168 * time.Hour), KeepUnsettled: true}},
		Partitions: []api.Partition{
			{Partition: 0, State: "ready", Leader: "node-1", PartitionFigures: &api.PartitionFigures{FirstOffset: 10, NextOffset: 25, Bytes: 2048},
				Replicas: []api.Replica{{Node: "node-1", Alive: true}, {Node: "node-2", Alive: true}, {Node: "node-3"}}},
			{Partition: 1, State: "opening", PartitionFigures: &api.PartitionFigures{NextOffset: 15, Bytes: 2048,
				Unreadable: []api.OffsetRange{{From: 3, To: 9}, {From: 12, To: 13}}}},
			{Partition: 2, State: "opening", Error: &api.ItemError{Code: "no_leader"}},
			{Partition: 3, State: "read_only", Leader: "node-1", PartitionFigures: &api.PartitionFigures{}, Error: &api.ItemError{Code: "partition_damaged",
				Detail: "partition 3 of topic orders: node-1 has a damaged entry at offset 7, and no other one a copy"}},
		},
	}
	same(t, renderTopic(&topic, 80, plain), `
topic            orders
state            degraded
created          2026-03-01 12:00:00.000
messages         30
size             4.1 kB
rates            1.0 in/s, 2.0 out/s
replicas         3, of which 2 before an answer
retention        168h, what is not settled stays
largest message  1.0 MB
compression      none

PART  STATE      LEADER  REPLICAS               FIRST  NEXT    SIZE
   0  ready      node-1  node-1 node-2 node-3!     10    25  2.0 kB
   1  opening    -       -                          0    15  2.0 kB
   2  opening    -       -                          -     -       -
   3  read_only  node-1  -                          0     0     0 B
!: away
partition 1: not all of 3 to 8 can be read
partition 1: not all of 12 to 12 can be read
partition 2: no_leader
partition 3: partition_damaged: node-1 has a damaged entry at offset 7, and no
other one a copy
`)
}

func TestGroupDescription(t *testing.T) {
	g := api.Group{Name: "billing", Topic: "orders", State: "paused", Settings: mq.DefaultGroupSettings(),
		GroupFigures: api.GroupFigures{Lag: 12, Ready: 9, InFlight: 2, Waiting: 1, Dead: 3, OldestAge: api.Duration(90 * time.Second)},
		Partitions: []api.GroupPartition{{Partition: 0, GroupPartitionFigures: &api.GroupPartitionFigures{Cursor: 100, NextOffset: 112,
			GroupFigures: api.GroupFigures{Lag: 12, InFlight: 2, Waiting: 1, Dead: 3, OldestAge: api.Duration(1500 * time.Millisecond)}}},
			{Partition: 1, Error: &api.ItemError{Code: "no_leader"}}}}
	same(t, renderGroup(&g, 80, plain), `
group          billing of topic orders
state          paused
lag            12 (9 ready, 2 in flight, 1 waiting)
dead           3
oldest         1m30s
lease          30s
max attempts   5
backoff        1s x 2, at most 5m, spread 0.2
max in flight  10000 per partition

PART  CURSOR  NEXT  LAG  IN FLIGHT  WAITING  DEAD  OLDEST
   0     100   112   12          2        1     3   1.50s
   1       -     -    -          -        -     -       -
partition 1: no_leader
`)
}

func TestGroupsTable(t *testing.T) {
	list := []api.GroupSummary{{Name: "billing", State: "ready", GroupFigures: api.GroupFigures{Lag: 7, Ready: 5, InFlight: 2}, Partial: true}}
	same(t, renderGroups(list, 80, plain), `
GROUP    STATE  LAG  READY  IN FLIGHT  WAITING  DEAD  OLDEST
billing  ready   7+      5          2        0     0       -
+: at least; not every partition's leader has answered
`)
}

func TestHeldTable(t *testing.T) {
	list := []api.HeldMessage{
		{ID: "EAEAAA", Partition: 0, Offset: 7, State: "leased", Attempt: 1, Until: noon, Consumer: "10.0.0.7"},
		{ID: "EAEAAB", Partition: 3, Offset: 1234, State: "dead", Attempt: 5, Reason: "card\x1b[31m refused"},
	}
	same(t, renderHeld(list, 80, plain), `
PART/OFFSET  ID      STATE   TRY  UNTIL (UTC)         BY OR WHY
        0/7  EAEAAA  leased    1  03-01 12:00:00.000  10.0.0.7
     3/1234  EAEAAB  dead      5  -                   card\x1b[31m refused
`)
	// Why a message is dead has the room; the times before are there where there is no bound.
	died := []api.HeldMessage{
		{ID: "EAEAAB", State: "dead", Attempt: 5, FirstDelivery: noon.Add(-90 * time.Minute), LastDelivery: noon.Add(-time.Second), Until: noon, Reason: "the lease ran out"},
		{ID: "EAEAAC", Offset: 1, State: "dead", Attempt: 1, Until: noon, Reason: "refused"},
	}
	same(t, renderHeld(died, 80, plain), `
PART/OFFSET  ID      TRY  DIED (UTC)        AFTER  WHY
        0/0  EAEAAB    5  03-01 12:00:00  1h30m0s  the lease ran out
        0/1  EAEAAC    1  03-01 12:00:00        -  refused
`)
	if wide := renderHeld(died, 0, plain); !strings.Contains(wide, "    5  03-01 10:30:00  03-01 11:59:59  03-01 12:00:00  the lease ran out\n") {
		t.Error(wide)
	}
}

func TestTraceTimeline(t *testing.T) {
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	trace := api.Trace{ID: "EAEAKg", Topic: "orders", Partition: 1, Offset: new(uint64(42)),
		Events: []api.TraceEvent{
			{At: noon, Type: "PUBLISHED", Producer: "10.0.0.9", Gateway: "gateway-1"},
			{At: at(4200 * time.Microsecond), Type: "REPLICATED", Node: "node-1", Replicas: []string{"node-1", "node-2", "node-3"}, Quorum: 2},
			{At: at(12 * time.Millisecond), Type: "DELIVERED", Group: "billing", Attempt: 1, Consumer: "worker-7", Until: at(30012 * time.Millisecond)},
			{At: at(1500 * time.Millisecond), Type: "NACKED", Group: "billing", Attempt: 1, Reason: "the card processor answered with an error that is too long to show"},
			{At: at(150 * time.Second), Type: "ACKNOWLEDGED", Group: "billing"},
		},
		Groups: []api.TraceGroup{{Group: "billing", State: "acked", Attempts: 2, Consumer: "worker-7",
			Delivered: api.Duration(12 * time.Millisecond), Acknowledged: api.Duration(150 * time.Second)}},
		Latency: api.TraceLatency{Committed: api.Duration(4200 * time.Microsecond), Delivered: api.Duration(12 * time.Millisecond), Acknowledged: api.Duration(150 * time.Second)}}
	same(t, renderTrace(&trace, 80, plain), `
message EAEAKg
orders, partition 1, offset 42
2026-03-01 12:00:00.000 UTC

        0  ●  PUBLISHED     by 10.0.0.9, through gateway-1
   +4.2ms  │  REPLICATED    on node-1 node-2 node-3, quorum 2, led by node-1
  +12.0ms  │  DELIVERED     billing, attempt 1, to worker-7, until +30.01s
   +1.50s  │  NACKED        billing, attempt 1, the card processor answered wit…
   +2m30s  ●  ACKNOWLEDGED  billing

GROUP    STATE  ATTEMPTS  DELIVERED  ACKED  CONSUMER
billing  acked         2     12.0ms  2m30s  worker-7

committed after 4.2ms, delivered after 12.0ms, acknowledged after 2m30s
`)
}

func TestTraceOfWhatHasNoTime(t *testing.T) {
	trace := api.Trace{ID: "EAEAKg", Topic: "orders", Offset: new(uint64(42)), Events: []api.TraceEvent{{At: noon, Type: "PUBLISHED"},
		{Type: "REPLICATED", Quorum: 2, AtLatest: noon.Add(5 * time.Second)}, {At: noon.Add(5 * time.Second), Type: "DELIVERED", Group: "g"}}}
	same(t, renderTrace(&trace, 80, plain), `
message EAEAKg
orders, partition 0, offset 42
2026-03-01 12:00:00.000 UTC

        0  ●  PUBLISHED
  ≤+5.00s  │  REPLICATED    quorum 2
   +5.00s  ●  DELIVERED     g
`)
}

func TestClusterTable(t *testing.T) {
	c := api.Cluster{ID: "c1", Gateway: "gateway-2", Topics: 3, Partitions: api.PartitionCounts{Total: 12, WithLeader: 11, UnderReplicated: 2},
		Nodes: []api.NodeInfo{{Name: "node-1", Alive: true, Address: "10.0.0.1:7001", Zone: "a", Leads: 6, Replicas: 12},
			{Name: "node-2", Leads: 5, Replicas: 12}},
		Gateways: []api.GatewayInfo{{Name: "gateway-2", Address: "10.0.0.2:8080"}}, Coordinators: []api.CoordinatorInfo{{Name: "coordinator-1", Controller: true}},
		CoordinatorsWanted: 3, Metadata: api.MetadataCurrent}
	same(t, renderCluster(&c, 80, plain), `
cluster       c1
answered by   gateway-2
coordinators  1 of 3
topics        3
partitions    12, 11 with a leader, 2 under-replicated

NAME           ROLE        STATE  ADDRESS        ZONE  LEADS  REPLICAS
node-1         log node    alive  10.0.0.1:7001  a         6        12
node-2         log node    away   -              -         5        12
gateway-2      gateway     alive  10.0.0.2:8080  -         -         -
coordinator-1  controller  alive  -              -         -         -
`)
}

// Of what can't be known nothing is said to be alive, and an address is never cut: its end is the port.
func TestClusterTableOfStaleMetadata(t *testing.T) {
	c := api.Cluster{ID: "c1", Gateway: "gateway-2", Partitions: api.PartitionCounts{Total: 12}, CoordinatorsWanted: 3,
		Metadata: api.MetadataStale, MetadataSince: &noon,
		Nodes: []api.NodeInfo{{Name: "node-1", Alive: true, Address: "log-node-1.eu-west.example.org:26300", Zone: "eu-west-1a", ClockAhead: api.Duration(-3 * time.Minute)},
			{Name: "node-2-of-the-second-rack", Address: "10.0.0.2:7001"}},
		Gateways:     []api.GatewayInfo{{Name: "gateway-1", Address: "10.0.0.1:8080"}, {Name: "gateway-2", Address: "10.0.0.2:8080", ClockAhead: api.Duration(2 * time.Second)}},
		Coordinators: []api.CoordinatorInfo{{Name: "coordinator-1"}}}
	got := renderCluster(&c, 80, plain)
	for _, want := range []string{"The coordinators can't be reached since 12:00:00 UTC; what follows is from then.\ncluster ", "coordinators  too few of 3, or none\n",
		"log-node-1.eu-west.example.org:26300 ", "\nnode-2-of-the-second-rack  log node  not heard  10.0.0.2:7001 ", "node-1: its clock is 3m behind\n", "gateway-2: its clock is 2s ahead\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	var states []string
	for line := range strings.Lines(got) {
		f := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(line, "log node", "node"), "not heard", "silent"))
		if len(f) == 7 && f[0] != "NAME" && f[0] != "coordinators" {
			states = append(states, f[2])
		}
	}
	if want := "alive silent unknown alive unknown"; strings.Join(states, " ") != want {
		t.Errorf("states %v, want %s in\n%s", states, want, got)
	}
	c.Metadata = api.MetadataReturned
	if got := renderCluster(&c, 80, plain); !strings.HasPrefix(got, "The coordinators are back since 12:00:00 UTC; others register anew.\n") {
		t.Errorf("just after:\n%s", got)
	}
}

// A node that can't be emptied is never said to be only a matter of time.
func TestDrainWithoutRoom(t *testing.T) {
	n := api.NodeInfo{Name: "node-2", Alive: true, Draining: true, Sealed: 111, NodesWanted: 1}
	same(t, renderNode(&n), `
node-2 is draining: it leads 0 partitions and holds 0 open segments.
No other node has room for all of its copies: add a log node.
`)
	n.NeededBy, n.NodesWanted = 4, 2
	same(t, addNodes(&n), `
4 partitions can't leave it: too few other nodes take segments.
The other nodes have no room for all of its copies: add 2 log nodes.
`)
	n.NeededBy, n.NodesWanted = 0, 0
	same(t, renderNode(&n), `
node-2 is draining: it leads 0 partitions and holds 0 open segments.
111 sealed segments are still to be copied elsewhere.
To see how far it is: splashdam cluster drain node-2
`)
	n.Leads, n.Sealed = 2, 0
	same(t, renderNode(&n), `
node-2 is draining: it leads 2 partitions and holds 0 open segments.
To see how far it is: splashdam cluster drain node-2
`)
}

func TestDeletion(t *testing.T) {
	same(t, renderDeletion(&api.Deletion{DryRun: true, Topic: "orders", Groups: []string{"a", "b"}, Messages: 7, Bytes: 700, Partial: true}, 80), `
would delete  topic orders
messages      7+
size          700 B
groups        a b
+: at least; not every partition's leader has answered
`)
	same(t, renderDeletion(&api.Deletion{Topic: "orders", Group: "billing", Messages: 7, InFlight: 2, Dead: 1}, 80), `
deleted    group billing of topic orders
lag        7
in flight  2
dead       1
`)
}

func TestDeletionOfAWebhook(t *testing.T) {
	same(t, renderDeletion(&api.Deletion{Topic: "orders", Group: mq.WebhookGroup("shop"), Messages: 7}, 80), `
deleted  webhook shop of topic orders
lag      7
`)
}

func TestColoursTakeNoRoom(t *testing.T) {
	list := []api.GroupSummary{{Name: "g", State: "paused"}, {Name: "h", State: "ready"}}
	got := renderGroups(list, 80, colour)
	for _, want := range []string{"\x1b[1mGROUP\x1b[0m", "\x1b[33mpaused\x1b[0m    0", "\x1b[32mready\x1b[0m     0"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%q", want, got)
		}
	}
}

func TestSizesAndSpans(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 1 << 20: "1.0 MB", 999_960: "1.0 MB", 1<<64 - 1: "18.4 EB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0µs", 1500: "1µs", 1500000: "1.5ms", 2 * time.Second: "2.00s", 61 * time.Second: "1m1s", -time.Second: "-1.00s",
		71*time.Hour + time.Second: "71h0m1s", 72 * time.Hour: "3d0h", 581*time.Hour + 42*time.Minute: "24d6h"} {
		if got := span(d); got != want {
			t.Errorf("span(%d) = %s, want %s", d, got, want)
		}
	}
}

func TestHistories(t *testing.T) {
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	list := []api.HeldMessage{
		{ID: "EAEAAA", Attempt: 1, Until: at(7 * time.Second), HistoryLeftOut: 2, History: []api.DeadAttempt{
			{Attempt: 3, DeliveredAt: at(0), Consumer: "worker-1", EndedAt: at(1500 * time.Millisecond), Result: "failed", Reason: "503 in 2.7ms, attempt 3 by worker-1: busy"},
			{Attempt: 4, DeliveredAt: at(3 * time.Second), Consumer: "worker-2"},
			{EndedAt: at(5 * time.Second), Result: "redriven"},
			{Attempt: 1, DeliveredAt: at(7 * time.Second), Consumer: "worker-1", EndedAt: at(6 * time.Second), Result: "dead"}}},
		{ID: "EAEAAQ", Partition: 2, Offset: 1, Attempt: 5, Until: noon, HistoryError: &api.ItemError{Code: "no_leader", Detail: "it has none"}},
	}
	same(t, renderHistories(list, 80, plain), `
0/0  EAEAAA  attempts: 1  died: 2026-03-01 12:00:07.000 UTC
2 before these; splashdam trace EAEAAA shows all
TRY  DELIVERED (UTC)       BY         HELD  ENDED     WHY
  3  03-01 12:00:00.000    worker-1  1.50s  failed    503 in 2.7ms: busy
  4  03-01 12:00:03.000    worker-2      -  -         -
  -  (03-01 12:00:05.000)  -             -  redriven  -
  1  03-01 12:00:07.000    worker-1      -  dead      -

2/1  EAEAAQ  attempts: 5  died: 2026-03-01 12:00:00.000 UTC
no history: no_leader: it has none
`)
}
