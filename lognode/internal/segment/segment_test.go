package segment

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/splashdam/splashdam/shared/mq"
)

func testSegment(replicas, quorum int) mq.Segment {
	s := mq.Segment{ID: 9, Partition: mq.PartitionID{Topic: 1}, Number: 1, Base: mq.Position{Offset: 10, Seq: 2}, Quorum: quorum,
		Leader: mq.Incarnation{Store: "s0", Boot: 5}}
	for i := range replicas {
		s.Replicas = append(s.Replicas, mq.Replica{Store: mq.StoreID(fmt.Sprint("s", i)), Node: fmt.Sprint("n", i)})
	}
	return s
}

// model is one segment on three nodes: links that keep order, disks that lose what is not synced, one seal.
type model struct {
	seg      mq.Segment
	leader   *Leader
	alive    bool
	replicas []*Replica
	disk     [][]mq.Entry // durable, per replica
	queue    [][]mq.Entry // given to the disk, not durable
	link     [][]mq.Entry // on the way from the leader
	acks     [][]mq.Position
	answers  map[int]mq.Position // what each replica answered to the seal
	acked    []mq.Entry          // answered to producers, with their contents
	placed   []mq.Entry
	boot     byte
}

func newModel(seg mq.Segment) *model {
	l, err := NewLeader(seg, seg.Base, 0)
	if err != nil {
		panic(err)
	}
	l.Chained()
	n := len(seg.Replicas)
	m := &model{seg: seg, leader: l, alive: true, disk: make([][]mq.Entry, n), queue: make([][]mq.Entry, n), link: make([][]mq.Entry, n),
		acks: make([][]mq.Position, n), answers: map[int]mq.Position{}}
	for range n {
		m.replicas = append(m.replicas, NewReplica(seg, seg.Base, seg.Base, false, nil))
	}
	return m
}

func (m *model) place(t *rapid.T) {
	if !m.alive || m.leader.Sealed() {
		return
	}
	e := mq.Entry{Count: uint32(rapid.IntRange(0, 2).Draw(t, "count")), Records: []byte{byte(len(m.placed))}}
	if err := m.leader.Place(&e, int64(rapid.IntRange(0, 100).Draw(t, "now"))); err != nil {
		t.Fatal(err)
	}
	m.placed = append(m.placed, e)
	for i := range m.link {
		m.link[i] = append(m.link[i], e)
	}
}

func (m *model) receive(t *rapid.T, i int) {
	if len(m.link[i]) == 0 {
		return
	}
	e := m.link[i][0]
	m.link[i] = m.link[i][1:]
	if m.replicas[i].Offer(&e, m.seg.Leader) == Take {
		m.queue[i] = append(m.queue[i], e)
	}
}

func (m *model) sync(t *rapid.T, i int) {
	if len(m.queue[i]) == 0 {
		return
	}
	e := m.queue[i][0]
	m.queue[i] = m.queue[i][1:]
	m.disk[i] = append(m.disk[i], e)
	if err := m.replicas[i].Durable(e.Next()); err != nil {
		t.Fatal(err)
	}
	m.acks[i] = append(m.acks[i], m.replicas[i].Tail())
}

func (m *model) hear(t *rapid.T, i int) {
	if len(m.acks[i]) == 0 || !m.alive {
		return
	}
	tail := m.acks[i][0]
	m.acks[i] = m.acks[i][1:]
	if _, err := m.leader.Acked(i, tail); err != nil {
		t.Fatal(err)
	}
	if err := m.leader.Check(); err != nil {
		t.Fatal(err)
	}
	for len(m.acked) < len(m.placed) && !m.leader.Commit().Before(m.placed[len(m.acked)].Next()) {
		m.acked = append(m.acked, m.placed[len(m.acked)])
	}
}

// crash loses what is not durable, and with the leader's node the leader. The links to the node begin anew: the
// leader asks for the tail and sends from there.
func (m *model) crash(i int) {
	r := m.replicas[i]
	last := m.seg.Base
	if n := len(m.disk[i]); n > 0 {
		last = m.disk[i][n-1].At
	}
	m.queue[i], m.acks[i] = nil, nil
	m.replicas[i] = NewReplica(m.seg, r.Tail(), last, r.Flagged(), r.End())
	if i == 0 {
		m.alive = false
	}
	m.link[i] = nil
	for _, e := range m.placed {
		if !e.At.Before(r.Tail()) {
			m.link[i] = append(m.link[i], e)
		}
	}
}

func (m *model) seal(t *rapid.T, i int) {
	r := m.replicas[i]
	r.Seal()
	if !r.Settled() {
		return // the caller waits: what is queued becomes durable first
	}
	r.SetFlagged()
	m.answers[i] = r.Tail()
}

func (m *model) check(t *rapid.T) {
	for i, disk := range m.disk { // I3, I4: replicas hold what the leader placed, in order
		for k, e := range disk {
			if p := m.placed[k]; p.At != e.At || p.Records[0] != e.Records[0] {
				t.Fatalf("replica %d holds %v at %d, the leader placed %v", i, e, k, p)
			}
		}
	}
	holders := func(k int) (n int) {
		for _, disk := range m.disk {
			if len(disk) > k {
				n++
			}
		}
		return n
	}
	for k := range m.acked { // I2
		if n := holders(k); n < m.seg.Quorum {
			t.Fatalf("entry %d was acknowledged and is on %d replicas", k, n)
		}
	}
	if len(m.answers) < m.seg.SealAnswers() {
		return
	}
	end := m.seg.Base
	for _, tail := range m.answers {
		if end.Before(tail) {
			end = tail
		}
	}
	for k, e := range m.acked { // I1
		if end.Before(e.Next()) {
			t.Fatalf("entry %d up to %s was acknowledged beyond the end %s of %v", k, e.Next(), end, m.answers)
		}
	}
}

// TestMuseum03AcknowledgedIsBelowEveryEnd is I1 to I4 over random schedules with crashes and a seal, for each quorum.
func TestMuseum03AcknowledgedIsBelowEveryEnd(t *testing.T) {
	for _, c := range []struct{ replicas, quorum int }{{1, 1}, {2, 2}, {3, 2}, {5, 3}} {
		t.Run(fmt.Sprintf("%d_of_%d", c.quorum, c.replicas), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := newModel(testSegment(c.replicas, c.quorum))
				for range rapid.IntRange(1, 80).Draw(t, "steps") {
					i := rapid.IntRange(0, c.replicas-1).Draw(t, "replica")
					switch rapid.IntRange(0, 11).Draw(t, "step") {
					case 0, 1, 2:
						m.place(t)
					case 3, 4, 5:
						m.receive(t, i)
					case 6, 7:
						m.sync(t, i)
					case 8, 9:
						m.hear(t, i)
					case 10:
						m.seal(t, i)
					case 11:
						m.crash(i)
					}
					m.check(t)
				}
			})
		})
	}
}

func TestReplicaVerdicts(t *testing.T) {
	seg := testSegment(3, 2)
	l, _ := NewLeader(seg, seg.Base, 0)
	var a, b, c mq.Entry
	a.Count, b.Count, c.Count = 1, 0, 2
	for _, e := range []*mq.Entry{&a, &b, &c} {
		if err := l.Place(e, 1); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReplica(seg, seg.Base, seg.Base, false, nil)
	step := func(what string, have, want Verdict) {
		t.Helper()
		if have != want {
			t.Fatalf("%s: verdict %d, want %d", what, have, want)
		}
	}
	step("b before a", r.Offer(&b, seg.Leader), Gap)
	step("a from another run of the leader", r.Offer(&a, mq.Incarnation{Store: "s0", Boot: 6}), Refused)
	step("a", r.Offer(&a, seg.Leader), Take)
	step("a again", r.Offer(&a, seg.Leader), Have)
	step("c before b", r.Offer(&c, seg.Leader), Gap)
	forged := b
	forged.Prev = mq.Position{Offset: 1}
	step("b with another predecessor", r.Offer(&forged, seg.Leader), Differs)
	if err := r.Differs(&forged); Invariant(err) != "I3" {
		t.Fatal(err)
	}
	step("b", r.Offer(&b, seg.Leader), Take)
	r.Seal()
	step("c after the seal", r.Offer(&c, seg.Leader), Sealed)
	if r.Settled() {
		t.Fatal("the seal is answerable while entries are not durable")
	}
	if err := r.Durable(b.Next()); err != nil {
		t.Fatal(err)
	}
	if !r.Settled() || r.Tail() != b.Next() {
		t.Fatalf("tail %s", r.Tail())
	}
	if cut, err := r.SetEnd(c.Next()); cut || err != nil {
		t.Fatal("a longer end cuts nothing", err)
	}
	step("a copy of c", r.Copied(&c), Take)
	if _, err := r.SetEnd(b.Next()); err == nil {
		t.Fatal("a second end was taken")
	}
}

func TestLongerTailIsCutAtTheEnd(t *testing.T) {
	seg := testSegment(3, 2)
	tail := mq.Position{Offset: 20}
	r := NewReplica(seg, tail, mq.Position{Offset: 19}, false, nil)
	end := mq.Position{Offset: 15}
	cut, err := r.SetEnd(end)
	if err != nil || !cut || r.Tail() != end || r.Queued() != end {
		t.Fatalf("cut %v tail %s queued %s err %v", cut, r.Tail(), r.Queued(), err)
	}
}

func TestStampsNeverGoBack(t *testing.T) {
	seg := testSegment(1, 1)
	l, _ := NewLeader(seg, seg.Base, 50)
	for _, c := range []struct{ now, want int64 }{{40, 50}, {60, 60}, {55, 60}} {
		var e mq.Entry
		if err := l.Place(&e, c.now); err != nil || e.Stamp != c.want {
			t.Fatalf("now %d: stamp %d, want %d (%v)", c.now, e.Stamp, c.want, err)
		}
	}
}

func TestAckBeyondWhatWasPlacedIsAnError(t *testing.T) {
	l, _ := NewLeader(testSegment(3, 2), mq.Position{}, 0)
	if _, err := l.Acked(1, mq.Position{Offset: 11}); err == nil {
		t.Fatal("counted")
	}
}

func TestNothingIsCommittedBeforeTheChainIs(t *testing.T) {
	l, _ := NewLeader(testSegment(1, 1), mq.Position{}, 0)
	var e mq.Entry
	e.Count = 1
	if err := l.Place(&e, 1); err != nil {
		t.Fatal(err)
	}
	if moved, _ := l.Acked(0, e.Next()); moved {
		t.Fatal("committed before the suffix was on a quorum")
	}
	if !l.Chained() || l.Commit() != e.Next() {
		t.Fatalf("commit %s after the suffix was", l.Commit())
	}
}

func TestMuseum05StuckFollowerHasAWindow(t *testing.T) {
	base := mq.Position{Offset: 0}
	f := NewFollower(base)
	if f.Live(base) || f.Behind(mq.Position{Offset: 1}) {
		t.Fatal("sent to without a stream")
	}
	f.Connect()
	if f.Live(base) {
		t.Fatal("sent to before its tail is known")
	}
	f.Rewind(base)
	if !f.Live(base) {
		t.Fatal("not live")
	}
	f.Sent(mq.Position{Offset: 1}, Window)
	if f.Live(mq.Position{Offset: 1}) {
		t.Fatal("the window is full")
	}
	f.Acked(mq.Position{Offset: 1})
	if f.InFlight() != 0 || !f.Live(mq.Position{Offset: 1}) || !f.Behind(mq.Position{Offset: 2}) {
		t.Fatal("the window did not open")
	}
	f.Rewind(base)
	if f.SentTo() != base {
		t.Fatal("a gap rewinds")
	}
}

// A disk that takes nothing must not make the leader send twice as much each time: one request per refusal, however
// many entries were on their way.
func TestOneRefusalAsksOnce(t *testing.T) {
	seg := testSegment(3, 2)
	l, _ := NewLeader(seg, seg.Base, 0)
	entries := make([]mq.Entry, 5)
	for i := range entries {
		entries[i].Count = 1
		if err := l.Place(&entries[i], 1); err != nil {
			t.Fatal(err)
		}
	}
	r := NewReplica(seg, seg.Base, seg.Base, false, nil)
	for round := range 3 {
		if v := r.Offer(&entries[0], seg.Leader); v != Take {
			t.Fatalf("round %d: verdict %d", round, v)
		}
		if !r.Unqueue(entries[0].At) {
			t.Fatal("not taken back")
		}
		for i := 1; i < len(entries); i++ {
			if v := r.Offer(&entries[i], seg.Leader); v != Ignore {
				t.Fatalf("round %d, entry %d: verdict %d, the leader would be asked again", round, i, v)
			}
		}
	}
	for i := range entries {
		if v := r.Offer(&entries[i], seg.Leader); v != Take {
			t.Fatalf("entry %d once there is room: verdict %d", i, v)
		}
	}
}
