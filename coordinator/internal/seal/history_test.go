package seal

import (
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// two is a partition that wants three replicas and has s1 and s2.
func two() mq.Head {
	h := open()
	h.Open.Replicas = replicas(2)
	return h
}

// A node that is registered and does not answer becomes no replica: nothing is sealed for it, again and again. One that is a
// replica already counts as what it is.
func TestSilentNodeIsNoReplacement(t *testing.T) {
	h, c := two(), calm()
	if !Degraded(&h, &c) {
		t.Fatal("s3 could be a replica")
	}
	c.Suspect = map[mq.StoreID]bool{"s3": true}
	if Degraded(&h, &c) {
		t.Error("s3 does not answer")
	}
	c.Behind = map[mq.SegmentID][]mq.StoreID{5: {"s2"}} // with s3 it would be better off without s2
	if need := Look(&h, &c, History{}); need.Reason != None {
		t.Errorf("s3 does not answer: %+v", need)
	}
	c.Suspect = nil
	if need := Look(&h, &c, History{}); need.Reason != Redundancy {
		t.Errorf("s3 answers: %+v", need)
	}
	h = open()
	c = Cluster{Alive: map[mq.StoreID]uint64{"s1": 1, "s3": 1, "s4": 1}, Takers: 3, Suspect: map[mq.StoreID]bool{"s3": true}}
	if !Degraded(&h, &c) {
		t.Error("s4 could take the place of s2")
	}
}

// What is sealed for a better replica, and does not get it, is left alone for longer each time, in either case: a replica is
// missing, or one is late by its leader's word. Once the partition has what it wants for that long all is as before.
func TestSealsInVainRest(t *testing.T) {
	for name, late := range map[string]bool{"missing": false, "late": true} {
		h, c, past := two(), calm(), History{}
		if late {
			c.Behind = map[mq.SegmentID][]mq.StoreID{5: {"s2"}}
		}
		began, sealed := c.Now, 0
		for ; c.Now < began+3600*second; c.Now += second {
			past = past.Watched(&h, &c)
			if need := Look(&h, &c, past); need.Reason == Redundancy {
				sealed++
				past = past.Moved(c.Now, need.Reason, h.Open, &mq.Segment{ID: h.Open.ID, Base: pos(20)})
			} else if need.Reason != None || need.Due <= c.Now {
				t.Fatalf("%s: %+v at %d", name, need, c.Now/second)
			}
		}
		if sealed > 15 { // 10, 20, 40, ... seconds between them, and 640 at most: 11 and a few at the start
			t.Errorf("%s: %d seals in an hour", name, sealed)
		}
		c.Behind = nil
		h.Open.Replicas = replicas(3)
		for range 640 {
			c.Now += second
			past = past.Watched(&h, &c)
		}
		if past.Vain != 0 || past.Degraded != 0 {
			t.Errorf("%s: all is well, and %+v", name, past)
		}
	}
}

// A leader that serves overrules a force, which stands for minutes. What else is a reason to seal must not wait for its end.
func TestForceHidesNoReason(t *testing.T) {
	by := &Force{By: "ann"}
	yes := map[mq.SegmentID]bool{5: true}
	for name, x := range map[string]struct {
		change func(c *Cluster)
		reason Reason
		force  bool
	}{
		"nothing else":       {func(*Cluster) {}, Forced, true},
		"gone":               {func(c *Cluster) { delete(c.Alive, "s1") }, Forced, true},
		"silent":             {func(c *Cluster) { c.Suspect = map[mq.StoreID]bool{"s1": true} }, Forced, true},
		"restarted":          {func(c *Cluster) { c.Alive["s1"] = 2 }, Restarted, true},
		"asked":              {func(c *Cluster) { c.Asked = yes }, Asked, true},
		"asked, and silent":  {func(c *Cluster) { c.Asked, c.Suspect = yes, map[mq.StoreID]bool{"s1": true} }, Asked, true},
		"flagged":            {func(c *Cluster) { c.Flagged = yes }, Flagged, true},
		"to be emptied":      {func(c *Cluster) { c.Drained = map[mq.StoreID]bool{"s2": true} }, Moving, false},
		"a follower is late": {func(c *Cluster) { c.Behind, c.Alive["s4"], c.Takers = map[mq.SegmentID][]mq.StoreID{5: {"s2"}}, 1, 4 }, Redundancy, false},
	} {
		h, c := open(), calm()
		c.Forced = map[mq.PartitionID]*Force{h.Partition: by}
		x.change(&c)
		if need := Look(&h, &c, History{}); need.Reason != x.reason || (need.Force == by) != x.force {
			t.Errorf("%s: %+v, want %s", name, need, x.reason)
		}
	}
	h, c := open(), calm()
	asked := Need{Reason: Asked, Force: by}
	if err := Judge(&h, asked, known(12, 12, 12), &c); err != nil {
		t.Errorf("it asks, and all answer: %v", err)
	}
	if err := Judge(&h, asked, known(12), &c); err == nil {
		t.Error("forced while the leader commits")
	}
	stuck := known(12, 12, 12) // the copies of the others are damaged, though their nodes answer
	stuck["s1"] = Answer{Node: stuck["s1"].Node, Known: true, Tail: pos(12), Leads: true}
	stuck["s2"], stuck["s3"] = Answer{Node: stuck["s2"].Node}, Answer{Node: stuck["s3"].Node}
	if err := Judge(&h, asked, stuck, &c); err != nil {
		t.Errorf("the leader can't commit any more: %v", err)
	}
	if err := Judge(&h, Need{Reason: Asked}, stuck, &c); err == nil {
		t.Error("one of three replicas was enough without an operator")
	}
}
