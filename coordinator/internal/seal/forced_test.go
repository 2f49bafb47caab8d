package seal

import (
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// left are the answers of s2 alone, sealed at 12.
func left() map[mq.StoreID]Answer {
	return map[mq.StoreID]Answer{"s2": {Node: mq.Incarnation{Store: "s2", Boot: 1}, Known: true, Sealed: true, Tail: pos(12)}}
}

func TestForce(t *testing.T) {
	h, c := open(), calm()
	delete(c.Alive, "s1")
	delete(c.Alive, "s3")
	c.Alive["s4"] = 7
	c.Takers = 2
	if err := Judge(&h, Look(&h, &c, History{}), left(), &c); err == nil {
		t.Fatal("one of three replicas was enough without an operator")
	}
	by := &Force{Store: "s2", Node: "n2", By: "ann", At: time.Unix(9, 0)}
	c.Forced = map[mq.PartitionID]*Force{h.Partition: by}
	c.Stormy = true // whoever forces has waited
	need := Look(&h, &c, History{Segment: 5, Opened: c.Now})
	if need.Reason != Forced || need.Force != by {
		t.Fatalf("%+v", need)
	}
	if err := Judge(&h, need, left(), &c); err != nil {
		t.Fatal(err)
	}
	end, err := ForcedEnd(&h, by, left())
	if err != nil || end != pos(12) {
		t.Fatalf("ends at %s, %v; s2 has 12", end, err)
	}
	next, _, ok := Plan(&h, end, left(), takers(2, 4), "", by)
	if !ok || next.Leader.Store != "s2" || next.Base != pos(12+mq.HoleJump) {
		t.Fatalf("%+v: what is beyond 12 may have been given", next)
	}
	next.ID = 6
	head, _ := Chain(h, end, next, by)
	want := mq.Hole{From: pos(12), To: pos(12 + mq.HoleJump), Segment: 5, At: time.Unix(9, 0), By: "ann", Node: "n2"}
	if len(head.Holes) != 1 || head.Holes[0] != want || head.Last.End != pos(12) {
		t.Errorf("%+v, last %+v", head.Holes, head.Last)
	}
	if lost, ok := head.Lost(1 << 31); !ok || lost != want {
		t.Error("an offset in the hole is not known as lost")
	}
	if _, ok := head.Lost(11); ok {
		t.Error("an offset below the hole is known as lost")
	}
}

func TestForceWithoutNeedLosesNothing(t *testing.T) {
	h := open()
	answers := left()
	answers["s3"] = Answer{Known: true, Sealed: true, Tail: pos(11)}
	by := &Force{By: "ann"}
	end, ok := End(h.Open, answers)
	next, _, planned := Plan(&h, end, answers, takers(2, 3), "", by)
	if !ok || !planned || next.Base != pos(12) {
		t.Fatalf("two of three answer, which is enough: %+v", next)
	}
	if head, _ := Chain(h, end, next, by); len(head.Holes) != 0 {
		t.Errorf("recorded as lost: %+v", head.Holes)
	}
}

func TestForceIsRefused(t *testing.T) {
	c := calm()
	serving := left()
	serving["s1"] = Answer{Node: mq.Incarnation{Store: "s1", Boot: 1}, Known: true, Leads: true, Committing: true}
	s2 := left()["s2"]
	s2.Sealed = false
	serving["s2"] = s2
	full := open()
	full.Holes = make([]mq.Hole, mq.MaxHoles)
	for name, x := range map[string]struct {
		head    mq.Head
		force   Force
		answers map[mq.StoreID]Answer
	}{
		"the named node does not answer": {open(), Force{Store: "s3"}, left()},
		"nobody answers":                 {open(), Force{}, nil},
		"the leader serves":              {open(), Force{}, serving},
		"too many holes":                 {full, Force{}, left()},
	} {
		if err := Judge(&x.head, Need{Reason: Forced, Force: &x.force}, x.answers, &c); err == nil {
			t.Errorf("%s: forced", name)
		}
	}
}

// The only copy is damaged: unknown to everybody but an operator, who keeps what is intact of it and leaves it its leader.
func TestForceKeepsWhatIsIntact(t *testing.T) {
	h, c := open(), calm()
	damaged := map[mq.StoreID]Answer{"s2": {Node: mq.Incarnation{Store: "s2", Boot: 1}, Damaged: true, Tail: pos(11)}}
	if err := Judge(&h, Look(&h, &c, History{}), damaged, &c); err == nil {
		t.Fatal("a damaged copy counted as an answer")
	}
	if end, ok := End(h.Open, damaged); ok || end != h.Open.Base {
		t.Fatalf("a damaged copy gave the end %s", end)
	}
	by := &Force{Store: "s2", Node: "n2", By: "ann", At: time.Unix(9, 0)}
	if err := Judge(&h, Need{Reason: Forced, Force: by}, damaged, &c); err != nil {
		t.Fatal(err)
	}
	end, err := ForcedEnd(&h, by, damaged)
	if err != nil || end != pos(11) {
		t.Fatalf("ends at %s, %v; it is intact up to 11", end, err)
	}
	next, _, ok := Plan(&h, end, damaged, takers(2, 4), "", by)
	if !ok || next.Leader.Store != "s2" || next.Base != pos(11+mq.HoleJump) {
		t.Fatalf("%+v", next)
	}
	damaged["s3"] = Answer{Known: true, Sealed: true, Tail: pos(11)}
	if next, _, ok = Plan(&h, end, damaged, takers(2, 3), "", by); !ok || next.Leader.Store != "s3" {
		t.Errorf("a damaged copy leads where a whole one could: %+v", next)
	}
}

// With no replica left everything in the segment is lost, if its operator says so.
func TestForceWithNothingLeft(t *testing.T) {
	h, c := open(), calm()
	by := &Force{Empty: true, By: "ann"}
	if err := Judge(&h, Need{Reason: Forced, Force: by}, nil, &c); err != nil {
		t.Fatal(err)
	}
	end, err := ForcedEnd(&h, by, nil)
	next, _, ok := Plan(&h, end, nil, takers(4, 5), "", by)
	if err != nil || end != pos(10) || !ok || next.Base != pos(10+mq.HoleJump) {
		t.Fatalf("%s, %v, %+v", end, err, next)
	}
	head, _ := Chain(h, end, next, by)
	if head.Last.ID != 4 || len(head.Holes) != 1 || head.Holes[0].From != pos(10) {
		t.Errorf("%+v, %+v", head.Last, head.Holes)
	}
}
