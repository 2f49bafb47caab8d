package coordinator

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/splashdam/splashdam/coordinator/internal/placement"
	"github.com/splashdam/splashdam/coordinator/internal/seal"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// fakeChains is the part of etcd that a round changes, with transactions whose outcome gets lost.
type fakeChains struct {
	t        *testing.T
	heads    map[mq.PartitionID]mq.Head
	revision int64
	ids      uint64
	readOnly bool // etcd takes no writes
	unsure   bool // the next transaction answers an error
	carried  bool // although it was carried out
	txns     int
	mu       sync.Mutex
	meddle   func() // called before each transaction
}

func (f *fakeChains) open(_ context.Context, openings []meta.Opening) (bool, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.txns++
	if f.meddle != nil {
		f.meddle()
	}
	unsure := f.unsure
	f.unsure = false
	if !unsure || f.carried {
		for _, o := range openings {
			if f.heads[o.Head.Partition].Revision != o.Head.Revision {
				return false, f.revision, nil
			}
		}
		f.revision++
		for _, o := range openings {
			o.Head.Revision = f.revision
			f.heads[o.Head.Partition] = o.Head
		}
	}
	if unsure {
		return false, 0, errors.New("etcdserver: request timed out")
	}
	return true, f.revision, nil
}

func (f *fakeChains) chains() seal.Chains {
	return seal.Chains{
		NextIDs: func(_ context.Context, n uint64) (uint64, error) {
			if f.readOnly {
				return 0, errors.New("etcdserver: no leader")
			}
			f.ids += n
			return f.ids - n + 1, nil
		},
		Open: f.open,
		Head: func(_ context.Context, p mq.PartitionID) (mq.Head, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.heads[p], nil
		},
	}
}

// roundOf runs one round for partitions whose head has nothing open, over one fake node.
func roundOf(t *testing.T, f *fakeChains, targets []seal.Target) []seal.Outcome {
	t.Helper()
	return roundOn(t, newFakeNode(t, "n", "s"), f, targets)
}

// roundOn is roundOf over a node with segments, whose store is "s".
func roundOn(t *testing.T, n *fakeNode, f *fakeChains, targets []seal.Target) []seal.Outcome {
	t.Helper()
	n.serve()
	defer n.die()
	return roundOver(t, n, f, targets)
}

func roundOver(t *testing.T, n *fakeNode, f *fakeChains, targets []seal.Target) []seal.Outcome {
	t.Helper()
	calls := seal.NewCalls(nil, 0)
	defer calls.Close()
	r := seal.Round{Calls: calls, Chains: f.chains(), Log: testLog(t), Members: []seal.Member{{
		Node: placement.Node{Name: "n", Store: "s"}, Addr: n.addr, Incarnation: mq.Incarnation{Store: "s", Boot: 1}, Live: true}}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.Run(ctx, targets)
}

func fakeTargets(f *fakeChains, n uint32) (out []seal.Target) {
	f.heads, f.revision = map[mq.PartitionID]mq.Head{}, 100
	for i := range n {
		h := mq.Head{Partition: mq.PartitionID{Topic: 1, Number: i}, Replicas: 1, Quorum: 1, Next: 1, Revision: 50}
		f.heads[h.Partition] = h
		out = append(out, seal.Target{Head: h, Need: seal.Need{Reason: seal.First}})
	}
	return out
}

// TestMuseum16UnknownOpeningIsReadAgain: the transaction timed out; whether it was carried out is read, and it is not
// sent twice.
func TestMuseum16UnknownOpeningIsReadAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		carried bool
		want    seal.Result
	}{"carried out": {true, seal.Opened}, "not carried out": {false, seal.Waiting}} {
		t.Run(name, func(t *testing.T) {
			f := &fakeChains{t: t, unsure: true, carried: c.carried}
			for _, o := range roundOf(t, f, fakeTargets(f, 3)) {
				if o.Result != c.want {
					t.Errorf("%s: result %d, %v", o.Target.Head.Partition, o.Result, o.Err)
				}
				if h := f.heads[o.Target.Head.Partition]; o.Result == seal.Opened && (h.Open.ID != o.Segment.ID || h.Revision != o.Revision) {
					t.Errorf("says %+v at %d, there is %+v at %d", o.Segment, o.Revision, h.Open, h.Revision)
				}
			}
			if f.txns != 1 {
				t.Errorf("%d transactions", f.txns)
			}
		})
	}
}

// TestChangedHeadStopsOnlyItself: one head of many was changed by another controller.
func TestChangedHeadStopsOnlyItself(t *testing.T) {
	t.Parallel()
	f := &fakeChains{t: t}
	targets := fakeTargets(f, 90)
	other := targets[7].Head
	other.Revision = 51
	f.heads[other.Partition] = other
	ids := map[mq.SegmentID]bool{}
	for i, o := range roundOf(t, f, targets) {
		want := seal.Opened
		if i == 7 {
			want = seal.Changed
		}
		if o.Result != want {
			t.Errorf("%d: result %d, %v", i, o.Result, o.Err)
		}
		if o.Result == seal.Opened && ids[o.Segment.ID] {
			t.Errorf("segment id %d twice", o.Segment.ID)
		}
		ids[o.Segment.ID] = true
	}
	// 40 that fail and go singly, 40, and 10.
	if f.txns != 1+40+2 {
		t.Errorf("%d transactions", f.txns)
	}
}

// TestRepairedHeadIsOpenedAllTheSame: repair changes who holds the last sealed segment while a round seals the open one. The
// round goes on with what it sealed: a partition whose leader is silent does not wait for another probe. The next segment is
// made again, by the newer revision: a node may remove one that compares a revision that is over (R5).
func TestRepairedHeadIsOpenedAllTheSame(t *testing.T) {
	t.Parallel()
	id := mq.PartitionID{Topic: 1}
	open := mq.Segment{ID: 9, Partition: id, Number: 3, Base: mq.Position{Offset: 5}, Quorum: 1, Leader: mq.Incarnation{Store: "s", Boot: 1},
		Replicas: []mq.Replica{{Store: "s", Node: "n"}}}
	other := open
	other.ID, other.Number = 10, 4
	for name, c := range map[string]struct {
		change func(h *mq.Head)
		times  int // that it comes in between
		want   seal.Result
		txns   int
	}{
		"once":            {func(h *mq.Head) { h.Last.Adding = append(h.Last.Adding, mq.Replica{Store: "t", Node: "m"}) }, 1, seal.Opened, 2},
		"twice":           {func(h *mq.Head) { h.Oldest++ }, 2, seal.Opened, 3},
		"again and again": {func(h *mq.Head) { h.Oldest++ }, 99, seal.Changed, 3},
		"another segment": {func(h *mq.Head) { h.Open = &other }, 1, seal.Changed, 1},
		"no segment":      {func(h *mq.Head) { h.Open = nil }, 1, seal.Changed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			head := mq.Head{Partition: id, Replicas: 1, Quorum: 1, Next: 4, Revision: 50, Open: &open,
				Last: &mq.Segment{ID: 8, Partition: id, Number: 2, Sealed: true, End: open.Base, Quorum: 1, Replicas: open.Replicas}}
			f := &fakeChains{t: t, revision: 50, ids: 20, heads: map[mq.PartitionID]mq.Head{id: head}}
			f.meddle = func() {
				if f.txns > c.times {
					return
				}
				f.revision++
				h := f.heads[id]
				last := *h.Last
				h.Last, h.Revision = &last, f.revision
				c.change(&h)
				f.heads[id] = h
			}
			n := newFakeNode(t, "n", "s")
			n.segments[9] = &fakeReplica{segment: mqpb.FromSegment(&open), tail: mq.Position{Offset: 7}}
			head.Replicas = 2 // of the topic; the head in etcd does not say so yet
			o := roundOn(t, n, f, []seal.Target{{Head: head, Need: seal.Need{Reason: seal.Asked}}})[0]
			if o.Result != c.want || f.txns != c.txns || n.seals != 1 {
				t.Fatalf("result %d (%v) after %d transactions and %d seals, want %d after %d and 1", o.Result, o.Err, f.txns, n.seals, c.want, c.txns)
			}
			if c.want != seal.Opened {
				return
			}
			h := f.heads[id]
			if h.Open.ID != o.Segment.ID || h.Open.Base != (mq.Position{Offset: 7}) || h.Last.ID != 9 || h.Last.End != h.Open.Base || h.Replicas != 2 {
				t.Errorf("opened %+v after %+v, %d replicas", h.Open, h.Last, h.Replicas)
			}
			if made := n.segments[uint64(h.Open.ID)]; made.against != h.Revision-1 {
				t.Errorf("made against revision %d, opened at %d", made.against, h.Revision)
			}
		})
	}
}

// TestNothingIsSealedThatCannotBeOpened: a controller that has lost etcd's majority, and does not know it yet, leaves a segment
// open: its leader may go on for as long as etcd is away.
func TestNothingIsSealedThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	f := &fakeChains{t: t, readOnly: true}
	targets := fakeTargets(f, 1)
	n := newFakeNode(t, "n", "s")
	n.serve()
	defer n.die()
	open := mq.Segment{ID: 7, Partition: targets[0].Head.Partition, Number: 1, Quorum: 1, Leader: mq.Incarnation{Store: "s", Boot: 1},
		Replicas: []mq.Replica{{Store: "s", Node: "n"}}}
	n.segments[7] = &fakeReplica{segment: mqpb.FromSegment(&open)}
	targets[0].Head.Open, targets[0].Need = &open, seal.Need{Reason: seal.Moving}
	if o := roundOver(t, n, f, targets)[0]; o.Result != seal.Waiting || n.seals > 0 {
		t.Errorf("result %d (%v) after %d seals", o.Result, o.Err, n.seals)
	}
	f.readOnly = false
	if o := roundOver(t, n, f, targets)[0]; o.Result != seal.Opened || n.seals != 1 {
		t.Errorf("result %d (%v) after %d seals", o.Result, o.Err, n.seals)
	}
}
