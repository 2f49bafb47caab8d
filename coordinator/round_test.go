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
)

// fakeChains is the part of etcd that a round changes, with transactions whose outcome gets lost.
type fakeChains struct {
	t        *testing.T
	heads    map[mq.PartitionID]mq.Head
	revision int64
	ids      uint64
	unsure   bool // the next transaction answers an error
	carried  bool // although it was carried out
	txns     int
	mu       sync.Mutex
}

func (f *fakeChains) open(_ context.Context, openings []meta.Opening) (bool, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.txns++
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
	n := newFakeNode(t, "n", "s")
	n.serve()
	defer n.die()
	calls := seal.NewCalls(nil)
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
