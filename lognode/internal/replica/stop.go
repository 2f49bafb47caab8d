package replica

import (
	"fmt"
	"runtime/debug"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// stop ends this partition's service on this node after a broken invariant, until the process is started anew: nothing is
// served, acknowledged, cut or answered to a seal by the copies that there are, rather than something wrong. What is on disk
// stays as it is, to be looked at. The process and its other partitions go on, and so do other nodes' copies.
func (p *Partition) stop(err error) {
	if p.fault != nil {
		return
	}
	p.fault = err
	p.env.Metrics.stopped(segment.Invariant(err))
	p.log.Error("an invariant is broken: this partition is stopped on this node", "err", err)
	p.resign(p.stopped(), nil)
	p.endRemains()
	for _, h := range p.copies {
		h.damaged = true // answers unknown
	}
	p.unpark()
}

// stopped is the answer while the partition is stopped here.
func (p *Partition) stopped() *mqerr.Error {
	return mqerr.New(mqerr.NoLeader, "the partition is stopped on this node, as something happened that must not: %w. Keep the node's log "+
		"and its directory, and report it", p.fault)
}

// try runs something that belongs to the partition's goroutine. A panic in it is a fault of this program that concerns one
// partition: another process that reads the same journal would have it too, and with it all partitions of each node in turn.
func (p *Partition) try(f func()) {
	defer p.recovered(p.stop)
	f()
}

// recovered turns a panic into an error for stop. Deferred as `defer p.recovered(stop)`.
func (p *Partition) recovered(stop func(error)) {
	if r := recover(); r != nil {
		p.log.Error("a panic", "panic", r, "stack", string(debug.Stack()))
		stop(fmt.Errorf("a panic: %v", r))
	}
}

// noteHead takes up what etcd says, unless that breaks an invariant: then the partition stops before anything is cut.
func (p *Partition) noteHead(h *mq.Head) bool {
	if p.fault != nil {
		p.head = *h
		return false
	}
	var committed mq.Position
	before := p.head.Open
	if before != nil {
		if c := p.copies[before.ID]; c != nil {
			committed = c.copy.Committed()
		}
		if l := p.lead; l != nil && l.seg.Segment().ID == before.ID {
			committed = maxPosition(committed, l.seg.Commit())
		}
	}
	err := segment.CheckHead(h, before, committed)
	p.head = *h
	if err != nil {
		p.stop(err)
	}
	return err == nil
}
