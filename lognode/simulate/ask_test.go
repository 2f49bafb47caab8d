package simulate

import (
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// pair is a leader and its one follower, with a stream that the test breaks. What happens later waits in later.
type pair struct {
	t     *testing.T
	later []func()
	up    bool
	lost  bool // acknowledgements are
	nodes [2]*Node
	seg   mq.Segment
}

func newPair(t *testing.T) *pair {
	p := &pair{t: t, up: true, seg: mq.Segment{ID: 1, Partition: mq.PartitionID{Topic: 1}, Number: 1, Quorum: 2,
		Replicas: []mq.Replica{{Store: "s0", Node: "n0"}, {Store: "s1", Node: "n1"}}, Leader: mq.Incarnation{Store: "s0", Boot: 1}}}
	for i := range p.nodes {
		p.nodes[i] = Start(p.host(), NewDisk(p.seg.Replicas[i].Store))
		p.nodes[i].clock.known = true
		p.nodes[i].Create(p.seg, 1, func(made bool) {
			if !made {
				t.Fatal("not made")
			}
		})
	}
	p.run()
	for _, n := range p.nodes {
		n.SetHead(p.head())
	}
	p.connect()
	return p
}

func (p *pair) head() mq.Head {
	return mq.Head{Partition: p.seg.Partition, Open: &p.seg, Next: 2, Revision: 2}
}

func (p *pair) host() *Host {
	now := func() int64 { return int64(time.Second) }
	return &Host{Now: now, Steady: now, True: now,
		After:     func(_ time.Duration, f func()) { p.later = append(p.later, f) },
		Sync:      func() (time.Duration, bool) { return 0, true },
		Connected: func(mq.StoreID) bool { return p.up },
		Send: func(_ mq.StoreID, m any) bool {
			if p.up {
				p.later = append(p.later, func() { p.nodes[1].FromLeader(p.seg.Leader, m, p.ack) })
			}
			return p.up
		},
		Chain:        func(_ mq.PartitionID, done func(mq.Head, []mq.Segment, bool)) { done(p.head(), nil, true) },
		WantSeal:     func(mq.SegmentID, string) {},
		Fault:        func(err error) { p.t.Error(err) },
		SegmentBytes: 1 << 30, CheckpointBytes: 1 << 30,
	}
}

func (p *pair) ack(a frame.Ack) {
	if p.up && !p.lost {
		p.later = append(p.later, func() { p.nodes[0].FromFollower("s1", a) })
	}
}

func (p *pair) connect() {
	p.up, p.lost = true, false
	p.nodes[0].Heard("s1")
	p.nodes[0].PeerUp("s1")
	p.run()
}

func (p *pair) run() {
	for len(p.later) > 0 {
		f := p.later[0]
		p.later = p.later[1:]
		f()
	}
}

// An acknowledgement that is lost with its stream must not leave the last entry waiting for the next one.
func TestTailCountsAfterTheStreamBeganAnew(t *testing.T) {
	p := newPair(t)
	answered := 0
	publish := func() {
		var b mq.BatchBuilder
		b.Add(&mq.Message{Value: []byte("v")})
		p.nodes[0].Append(p.seg.Partition, b.AppendTo(nil, "", "", mq.CodecNone, nil), 1, func(_ Appended, err error) {
			if err != nil {
				t.Error(err)
			}
			answered++
		})
		p.run()
	}
	publish()
	if answered != 1 {
		t.Fatal("the first publish was not answered")
	}
	p.lost = true
	publish()
	if answered != 1 {
		t.Fatal("answered though the follower was not heard")
	}
	p.up = false
	p.nodes[0].PeerDown("s1")
	p.connect()
	if answered != 2 {
		t.Fatal("durable on both, and still not answered after the stream began anew")
	}
}
