package gateway

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// accounts are the streams that have leases out, by the number that their receives carry. Leaders tell when a lease is
// over, whichever gateway settled it.
type accounts struct {
	mu   sync.RWMutex
	last uint64
	all  map[uint64]*account
}

// account is what one stream has out. What it may have beyond that is its credit.
type account struct {
	id      uint64
	changed chan struct{} // capacity 1: a lease is over, or the credit is another one

	mu     sync.Mutex
	credit int
	out    map[lease]uint64 // to offsets; at most as many as the credit was
}

// lease names one lease of a group.
type lease struct {
	partition        uint32
	segment, counter uint64
}

func (a *accounts) open(credit int) *account {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[uint64]*account{}
	}
	a.last++
	x := &account{id: a.last, credit: credit, changed: make(chan struct{}, 1)}
	a.all[x.id] = x
	return x
}

func (a *accounts) close(x *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, x.id)
}

// freed takes a leader's word that leases are over. It runs on the goroutine of the stream to that node.
func (a *accounts) freed(f *frame.Freed) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	for _, run := range f.Runs {
		if x := a.all[run.Account]; x != nil {
			x.freed(f.Partition.Number, run)
		}
	}
}

func (x *account) freed(partition uint32, run frame.FreedRun) {
	x.mu.Lock()
	before := len(x.out)
	if int64(run.Count) > int64(before) { // more than there are: whatever the leader counts
		for l := range x.out {
			if l.partition == partition && l.segment == run.Segment && l.counter-run.Counter < uint64(run.Count) {
				delete(x.out, l)
			}
		}
	} else {
		for i := range uint64(run.Count) {
			delete(x.out, lease{partition, run.Segment, run.Counter + i})
		}
	}
	less := len(x.out) < before
	x.mu.Unlock()
	if less {
		x.poke()
	}
}

func (x *account) poke() {
	select {
	case x.changed <- struct{}{}:
	default:
	}
}

// room is how many more messages may go out now.
func (x *account) room() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.credit - len(x.out)
}

// setCredit changes how many may be out at once; with fewer, what is out stays out.
func (x *account) setCredit(n int) {
	x.mu.Lock()
	x.credit = n
	x.mu.Unlock()
	x.poke()
}

// add notes what a leader handed over, before the client can settle it.
func (x *account) add(h *handed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.out == nil {
		x.out = map[lease]uint64{}
	}
	for _, run := range h.Runs {
		for i := range uint64(run.Count) {
			x.out[lease{h.partition.Number, h.Segment, run.Counter + i}] = run.First + i
		}
	}
}

// check asks the leaders which of the leases are over: what they told may have been lost with a stream or a leader
// (museum 29: stale credit). It says whether any was.
func (x *account) check(ctx context.Context, g *Gateway, topic mq.TopicID, group mq.GroupID) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	x.mu.Lock()
	byPartition := map[uint32]*frame.Leased{}
	for l, offset := range x.out {
		f := byPartition[l.partition]
		if f == nil {
			f = &frame.Leased{Partition: mq.PartitionID{Topic: topic, Number: l.partition}, Group: group}
			byPartition[l.partition] = f
		}
		f.Items = append(f.Items, frame.LeasedItem{Offset: offset, Segment: l.segment, Counter: l.counter})
	}
	x.mu.Unlock()
	over := false
	for _, f := range byPartition {
		until, err := g.leasedUntil(ctx, f)
		if err != nil {
			continue // the next time asks again
		}
		x.mu.Lock()
		for i, it := range f.Items {
			if until[i] == 0 {
				delete(x.out, lease{f.Partition.Number, it.Segment, it.Counter})
				over = true
			}
		}
		x.mu.Unlock()
	}
	return over
}

func (g *Gateway) leasedUntil(ctx context.Context, f *frame.Leased) ([]int64, error) {
	body, err := g.router.Call(ctx, f.Partition, frame.TypeLeased, f)
	if err != nil {
		return nil, err
	}
	var answer frame.LeasedUntil
	if err := answer.Parse(body); err != nil {
		return nil, err
	}
	if len(answer.Until) != len(f.Items) {
		return nil, fmt.Errorf("the leader of partition %s speaks of %d leases, not %d", f.Partition, len(answer.Until), len(f.Items))
	}
	return answer.Until, nil
}
