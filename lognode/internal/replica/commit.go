package replica

import (
	"context"

	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

// feedBytes is how much a follower that fell behind is sent from the store at a time.
const feedBytes = 2 << 20

// written is an entry that was given to the store, in which try of its copy: a refusal takes back all that was given
// behind it, and the refusals of those may come when they have been given again.
type written struct {
	at, next mq.Position
	data     []byte
	try      uint64
}

// durable is the store's word about an entry: with no error everything up to it is on this disk, as the leader's own
// acknowledgement, or as a follower's to its leader.
func (p *Partition) durable(id mq.SegmentID, w written, err error) {
	l := p.lead
	leads := l != nil && l.seg.Segment().ID == id
	if err != nil {
		switch h := p.copies[id]; {
		case leads && full(err):
			p.refused(l, w)
		case leads:
			p.diskFailed(l, err)
		case h != nil:
			p.notWritten(h, w, err)
		}
		return
	}
	if h := p.copies[id]; h != nil {
		p.copyDurable(h, w.next)
		p.index(h, w.data)
	}
	if !leads || p.lead != l {
		return
	}
	n := 0
	for n < len(l.own) && !w.next.Before(l.own[n].next) {
		l.ownBytes -= len(l.own[n].data)
		p.env.Own.Add(-int64(len(l.own[n].data)))
		l.own[n].data = nil
		n++
	}
	l.given -= n
	if l.own = l.own[n:]; len(l.own) == 0 {
		l.own = nil
	}
	p.acked(l, l.seg.Self(), w.next)
	p.feedAll(l)
}

// acked counts one replica's tail and answers what became committed by it.
func (p *Partition) acked(l *leadership, replica int, tail mq.Position) {
	moved, err := l.seg.Acked(replica, tail)
	if err != nil {
		p.stop(err)
		return
	}
	if moved {
		p.committed(l)
	}
}

// committed makes messages visible, answers callers, and asks for a roll or a checkpoint when it is time.
func (p *Partition) committed(l *leadership) {
	if err := l.seg.Check(); err != nil {
		p.stop(err)
		return
	}
	l.machine.Commit(l.seg.Commit().Offset)
	l.commits.note(l.seg.Commit().Offset, p.env.Clock.Now())
	l.release()
	if l.sinceOpen-l.checkpoints >= p.env.SegmentBytes && !l.asked { // or a state as large as a segment would roll it as soon as it opens
		l.asked = true // rolling is a wish: the segment grows on until the seal comes
		p.env.WantSeal(l.seg.Segment().ID, "roll")
	}
	if l.sinceOpen-l.checkpointed >= checkpointEvery && !l.seg.Sealed() {
		p.checkpoint(l)
	}
}

// release answers what waited for the commit position.
func (l *leadership) release() { l.answers.Release(l.seg.Commit()) }

// announce tells gateways which groups became ready, and sets the timers, after a round of events.
func (p *Partition) announce() {
	l := p.lead
	if l == nil || !l.serving {
		return
	}
	if wants := l.machine.WantsKeys(); wants != p.keys.Load() {
		p.keys.Store(wants)
	}
	l.machine.TakeReady(func(g mq.GroupID) { p.env.Wake(p.id, g) })
	p.tellTail(l)
	l.machine.TakeFreed(p.tellFreed)
	p.setTimers(l)
	p.readAhead(l)
	p.readDead(l)
	p.learnSizes(l)
}

// checkpoint puts the machine's state into the journal, in records of its own. It names the position after
// everything that is placed: the state holds all of that and nothing more, as nothing waits to be placed. False says that
// it could not be put there whole.
func (p *Partition) checkpoint(l *leadership) bool {
	if l.records() > 0 && !p.place(l) {
		return false
	}
	before := l.sinceOpen
	l.machine.At(p.env.Clock.Now())
	for _, body := range l.machine.Checkpoint(l.seg.Next(), checkpointPart, l.schedulesBeside()...) {
		data := make([]byte, mq.EntryHeaderSize, mq.EntryHeaderSize+len(body)+16)
		data = mq.AppendRecord(data, mq.KindCheckpoint, body)
		var e mq.Entry
		if err := l.seg.Place(&e, p.env.Clock.Now()); err != nil {
			return false // sealed meanwhile: the next leader makes its own
		}
		e.PutHeader(data)
		p.send(l, &e, data)
	}
	l.checkpointed = l.sinceOpen // its own bytes are no reason for the next one
	l.checkpoints += l.sinceOpen - before
	return true
}

// Acked takes a follower's acknowledgement from the stream of its node.
func (p *Partition) Acked(from mq.StoreID, a frame.Ack) {
	p.post(func() {
		l := p.lead
		if l == nil || l.seg.Segment().ID != a.Segment {
			return
		}
		i := l.seg.Segment().ReplicaIndex(from)
		if i < 0 || l.followers[i] == nil {
			return
		}
		f := l.followers[i]
		switch a.State {
		case frame.AckSealed:
			f.Gone = true
			p.acked(l, i, a.Tail)
			p.sealedBy(l, "replica "+l.seg.Segment().Replicas[i].Node)
			return
		case frame.AckUnknown, frame.AckRefused:
			f.Gone = true
			p.log.Warn("a replica can't follow", "node", l.seg.Segment().Replicas[i].Node, "state", a.State)
			if !l.asked { // its copy is missing or damaged: only a new segment gives it one
				l.asked = true
				p.env.WantSeal(a.Segment, "a replica can't follow")
			}
			return
		case frame.AckGap:
			f.Rewind(a.Tail)
		default:
			if f.Known() {
				f.Acked(a.Tail)
			} else {
				f.Rewind(a.Tail)
			}
			p.acked(l, i, a.Tail)
		}
		p.feed(l, i)
	})
}

func (p *Partition) feedAll(l *leadership) {
	for i, f := range l.followers {
		if f != nil {
			p.feed(l, i)
		}
	}
}

// feed sends a follower that is behind what it lacks: from memory what is not durable here yet, else a
// piece from the store, read beside the partition.
func (p *Partition) feed(l *leadership, i int) {
	f := l.followers[i]
	if !f.Behind(l.seg.Next()) || p.lead != l {
		return
	}
	from := f.SentTo()
	for n, e := range l.own {
		if e.at == from {
			for _, e := range l.own[n:] {
				if !f.Live(e.at) {
					break
				}
				p.sendTo(l, i, [][]byte{e.data}, e.next, len(e.data))
			}
			return
		}
	}
	f.Feeding = true
	id := l.seg.Segment().ID
	p.beside(func(context.Context) {
		entries, next, bytes, err := p.readFeed(id, from)
		p.post(func() { p.fed(l, i, f, from, entries, next, bytes, err) })
	})
}

func (p *Partition) fed(l *leadership, i int, f *segment.Follower, from mq.Position, entries [][]byte, next mq.Position, bytes int, err error) {
	f.Feeding = false
	switch {
	case p.lead != l || !f.Connected || f.SentTo() != from:
		return
	case err != nil:
		p.log.Error("can't read for a follower", "err", err)
		return
	case len(entries) == 0:
		return // not durable here yet; the next durable entry feeds again
	}
	p.sendTo(l, i, entries, next, bytes)
	p.feed(l, i)
}

func (p *Partition) readFeed(id mq.SegmentID, from mq.Position) (entries [][]byte, next mq.Position, bytes int, err error) {
	var bad error
	err = p.env.Store.Scan(id, from, func(at mq.Position, data []byte) bool {
		e, err := mq.ParseEntryHeader(data)
		if err != nil {
			bad = err
			return false
		}
		entries = append(entries, append([]byte(nil), data...))
		next = e.Next()
		bytes += len(data)
		return bytes < feedBytes
	})
	if err == nil {
		err = bad
	}
	return entries, next, bytes, err
}
