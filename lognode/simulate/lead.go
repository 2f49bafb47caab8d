package simulate

import (
	"fmt"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	entryAbout     = 8 << 10 // small, so that batches spread over entries
	holdBelow      = 2 << 10
	maxOwn         = 4 << 10 // small, so that writers come to wait for a disk that stalls
	feedBytes      = 4 << 10
	checkpointPart = 4 << 10
)

// flush, mayPlace, place and send are those of replica/append.go.
func (p *partition) flush() {
	l := p.lead
	defer p.noteWait()
	for l != nil && l.serving && !l.seg.Sealed() && l.mayPlace() {
		urgent := l.machine.Urgent() || l.ahead.Looks() || l.book.Unwritten() > 0
		if len(l.batches) == 0 && !l.answers.Waits() && !urgent {
			p.writeBehind(l)
			return
		}
		if !p.place(l) {
			return
		}
	}
}

func (l *leadership) mayPlace() bool {
	return len(l.own) == 0 || l.ownBytes < maxOwn && (l.batchBytes >= holdBelow || !l.seg.Commit().Before(l.newest))
}

func (p *partition) writeBehind(l *leadership) {
	if l.machine.Pending() == 0 || l.behind {
		return
	}
	l.behind = true
	p.node.host.After(writeBehind, func() {
		p.post(func() {
			if l.behind = false; p.lead == l && l.serving && !l.seg.Sealed() && l.machine.Pending() > 0 {
				p.place(l)
			}
		})
	})
}

func (p *partition) place(l *leadership) bool {
	data := l.machine.TakeRecords(make([]byte, mq.EntryHeaderSize))
	data = l.book.TakeRecords(data)
	var e mq.Entry
	clock := p.now()
	now := max(clock, l.seg.Stamp())
	data, e.Count = p.placeReleases(l, data, clock) // by the clock itself: an earlier leader's may have been ahead
	answers := make([]Appended, 0, len(l.batches))
	for n := range l.batches {
		b := &l.batches[n]
		if n > 0 && len(data)+len(b.body) > entryAbout {
			break
		}
		l.batchBytes -= len(b.body)
		answers = append(answers, Appended{First: l.seg.Next().Offset + uint64(e.Count), Count: b.count, Segment: l.seg.Segment().ID})
		if b.times != nil {
			answers[n].First = l.book.Next()
			data = l.placeScheduled(b, data, now)
			continue
		}
		attributes, err := delivery.AttributesOf(b.body, l.machine.WantsKeys())
		if err != nil {
			p.stop(err)
			return false
		}
		l.machine.Append(answers[n].First, b.count, attributes)
		data = mq.AppendRecord(data, mq.KindMessages, b.body)
		e.Count += b.count
	}
	if len(data) == mq.EntryHeaderSize {
		l.answers.Placed(l.seg.Next())
		l.release()
		return false
	}
	if err := l.seg.Place(&e, now); err != nil {
		p.stop(err)
		return false
	}
	e.PutHeader(data)
	for n, ok := range answers {
		ok.Next, ok.Stamp = e.Next(), e.Stamp
		reply := l.batches[n].placed
		done := func(err error) { reply(ok, err) }
		if p.node.host.Mutation.AnswerAtOnce {
			done(nil)
			done = func(error) {}
		}
		l.answers.At(e.Next(), done)
	}
	l.batches = append([]batch(nil), l.batches[len(answers):]...)
	l.answers.Placed(e.Next())
	p.send(l, &e, data)
	l.newest = e.Next()
	return true
}

func (p *partition) send(l *leadership, e *mq.Entry, data []byte) {
	next := e.Next()
	if h := p.copies[e.Segment]; h == nil || h.copy.Offer(e, l.seg.Segment().Leader) != segment.Take {
		p.stop(fmt.Errorf("the leader's own copy of segment %d does not take %s", e.Segment, e.At))
		return
	}
	l.own = append(l.own, placed{*e, data})
	l.ownBytes += len(data)
	l.sinceOpen += int64(len(data))
	p.give(l)
	for i, f := range l.followers {
		if f != nil && f.Live(e.At) {
			p.sendTo(l, i, [][]byte{data}, next, len(data))
		}
	}
}

func (p *partition) sendTo(l *leadership, i int, entries [][]byte, next mq.Position, bytes int) {
	s := l.seg.Segment()
	if !p.node.host.Send(s.Replicas[i].Store, entriesFrame{Segment: s.ID, Commit: l.seg.Commit(), Entries: entries}) {
		l.followers[i].Disconnect()
		return
	}
	l.followers[i].Sent(next, bytes)
}

func (p *partition) give(l *leadership) {
	id := l.seg.Segment().ID
	for l.given < len(l.own) {
		x := l.own[l.given]
		next := x.entry.Next()
		if !p.node.disk.append(id, &x.entry, x.data, func(err error) { p.post(func() { p.durable(id, next, err) }) }) {
			p.node.host.After(retryGive, func() {
				p.post(func() {
					if !l.ended {
						p.give(l)
					}
				})
			})
			return
		}
		l.given++
	}
}

func (p *partition) diskFailed(l *leadership) {
	l.seg.Seal()
	p.node.host.WantSeal(l.seg.Segment().ID, "the leader's disk failed")
}

// durable, acked, committed, release, checkpoint and feed are those of replica/commit.go.
func (p *partition) durable(id mq.SegmentID, next mq.Position, err error) {
	if h := p.copies[id]; h != nil {
		p.copyDurable(h, next, err)
	}
	l := p.lead
	if l == nil || l.seg.Segment().ID != id {
		return
	}
	if err != nil {
		p.diskFailed(l)
		return
	}
	n := 0
	for n < len(l.own) {
		if after := l.own[n].entry.Next(); next.Before(after) {
			break
		}
		l.ownBytes -= len(l.own[n].data)
		n++
	}
	l.given -= n
	l.own = append([]placed(nil), l.own[n:]...)
	p.count(l, l.seg.Self(), next)
	for i, f := range l.followers {
		if f != nil {
			p.feed(l, i)
		}
	}
}

func (p *partition) count(l *leadership, replica int, tail mq.Position) {
	moved, err := l.seg.Acked(replica, tail)
	if err == nil && moved {
		err = l.seg.Check()
	}
	if err != nil {
		p.stop(err)
		return
	}
	if moved && l.machine != nil {
		p.committed(l)
	}
}

func (p *partition) committed(l *leadership) {
	l.machine.Commit(l.seg.Commit().Offset)
	l.release()
	if l.sinceOpen-l.checkpoints >= p.node.host.SegmentBytes && !l.asked {
		l.asked = true
		p.node.host.WantSeal(l.seg.Segment().ID, "roll")
	}
	if l.sinceOpen-l.checkpointed >= p.node.host.CheckpointBytes && !l.seg.Sealed() {
		p.checkpoint(l)
	}
}

func (l *leadership) release() { l.answers.Release(l.seg.Commit()) }

func (p *partition) checkpoint(l *leadership) {
	if l.machine.Pending()+l.book.Unwritten() > 0 && !p.place(l) {
		return
	}
	before := l.sinceOpen
	l.machine.At(p.now())
	for _, body := range l.machine.Checkpoint(l.seg.Next(), checkpointPart, l.beside()...) {
		data := mq.AppendRecord(make([]byte, mq.EntryHeaderSize), mq.KindCheckpoint, body)
		var e mq.Entry
		if err := l.seg.Place(&e, p.now()); err != nil {
			return
		}
		e.PutHeader(data)
		p.send(l, &e, data)
	}
	l.checkpointed = l.sinceOpen
	l.checkpoints += l.sinceOpen - before
}

func (p *partition) acked(from mq.StoreID, a ackFrame) {
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
			p.count(l, i, a.Tail)
			p.sealedBy(l)
			return
		case frame.AckUnknown, frame.AckRefused:
			if f.Gone = true; !l.asked { // only a new segment gives it a copy
				l.asked = true
				p.node.host.WantSeal(a.Segment, "a replica can't follow")
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
			p.count(l, i, a.Tail)
		}
		p.feed(l, i)
	})
}

func (p *partition) feed(l *leadership, i int) {
	f := l.followers[i]
	if !f.Behind(l.seg.Next()) || p.lead != l {
		return
	}
	from := f.SentTo()
	for n := range l.own {
		if l.own[n].entry.At == from {
			for _, x := range l.own[n:] {
				if !f.Live(x.entry.At) {
					break
				}
				p.sendTo(l, i, [][]byte{x.data}, x.entry.Next(), len(x.data))
			}
			return
		}
	}
	f.Feeding = true
	id := l.seg.Segment().ID
	p.node.host.After(0, func() {
		var entries [][]byte
		var next mq.Position
		bytes := 0
		err := p.node.disk.scan(id, from, func(e *mq.Entry, data []byte) bool {
			entries, next, bytes = append(entries, data), e.Next(), bytes+len(data)
			return bytes < feedBytes
		})
		p.post(func() {
			if f.Feeding = false; p.lead != l || !f.Connected || f.SentTo() != from || err != nil || len(entries) == 0 {
				return
			}
			p.sendTo(l, i, entries, next, bytes)
			p.feed(l, i)
		})
	})
}
