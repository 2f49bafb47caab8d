package meta

import (
	"slices"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// taken are the partition numbers that a feed gives at a time, in order.
func taken(f *HeadFeed, at time.Time) (out []uint32) {
	for _, h := range f.Take(at) {
		out = append(out, h.Partition.Number)
	}
	slices.Sort(out)
	return out
}

func TestHeadFeedGivesWhatChanged(t *testing.T) {
	v := NewView(nil, quiet())
	kind := v.data.headKind()
	set := func(number uint32, revision int64) {
		t.Helper()
		p := mq.PartitionID{Topic: 1, Number: number}
		value, err := encode(mq.Head{Partition: p})
		if err != nil {
			t.Fatal(err)
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if err := kind.set(partitionKey(p)[len(prefixPartitions):], []byte(value), revision); err != nil {
			t.Fatal(err)
		}
		v.notify()
	}
	set(0, 1)
	set(1, 2)
	now := time.Unix(1000, 0)
	early, late := v.FollowHeads(time.Minute), v.FollowHeads(time.Minute)
	if got := taken(late, now); !slices.Equal(got, []uint32{0, 1}) {
		t.Errorf("at first %v", got)
	}
	if got := taken(early, now); !slices.Equal(got, []uint32{0, 1}) {
		t.Errorf("at first %v", got)
	}
	if got := taken(early, now); got != nil {
		t.Errorf("nothing changed, and %v is given", got)
	}
	version := v.Version()
	set(1, 3)
	set(2, 4)
	set(1, 5)
	if v.Version() == version {
		t.Error("changes leave the version as it was")
	}
	if got := taken(early, now); !slices.Equal(got, []uint32{1, 2}) {
		t.Errorf("1 and 2 changed, and %v is given", got)
	}
	v.mu.Lock()
	kind.unset(partitionKey(mq.PartitionID{Topic: 1, Number: 0})[len(prefixPartitions):])
	v.mu.Unlock()
	if got := taken(early, now); got != nil {
		t.Errorf("a head was removed, and %v is given", got)
	}
	if got := taken(late, now); !slices.Equal(got, []uint32{1, 2}) { // who takes later gets all of it, without what is gone
		t.Errorf("of the other feed %v", got)
	}
	// What a feed has missed, for whatever reason, comes when all are given.
	set(1, 7)
	v.mu.Lock()
	clear(early.changed)
	v.mu.Unlock()
	if got := taken(early, now.Add(time.Minute-1)); got != nil {
		t.Errorf("before a minute has passed %v", got)
	}
	if got := taken(early, now.Add(time.Minute)); !slices.Equal(got, []uint32{1, 2}) {
		t.Errorf("a minute after all were given %v", got)
	}
	early.Close()
	set(2, 8)
	if got := taken(early, now.Add(time.Minute+1)); got != nil {
		t.Errorf("a closed feed gives %v", got)
	}
}
