package replica

import (
	"errors"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/segment"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// entryAbout is where an entry ends; one batch, or one message that is released or carried, may be larger. With more than
	// that in it an entry takes nothing else: two of the largest would exceed what a store and a stream take.
	entryAbout = 1 << 20
	// MaxBatch is the largest batch that is taken, encoded: one message of the largest size with all headers, or many of about
	// 1 MiB in all. A larger one would make an entry that no store takes, which its leader could only seal over.
	MaxBatch = 18 << 20
	// holdBelow: while an entry of the partition is on its way to a quorum, less than this waits for it, so
	// that single messages gather into one entry as they do in a group commit.
	holdBelow = 256 << 10
	// maxOwn bounds what one partition has on its way to the own disk, in bytes, and maxOwnNode what all that a node leads have
	// there: as much as its store takes (store.Config.QueueBytes). Beyond them a partition waits until all it has there is written.
	maxOwn     = 8 << 20
	maxOwnNode = 64 << 20
	// retryGive is when entries are offered again to a store whose queue or disk is full.
	retryGive = 2 * time.Millisecond
)

// Append takes one batch whose index was checked (mq.Batch.CheckIndex). The answer is Appended once it is
// committed, or an error.
func (p *Partition) Append(body []byte, count int, reply Reply) {
	attributes, err := delivery.AttributesOf(body, p.keys.Load())
	if err != nil {
		reply.fail(mqerr.New(mqerr.InvalidRequest, "batch: %w", err))
		return
	}
	p.queue(batch{body: body, count: uint32(count), attributes: attributes, reply: reply}, func(*leadership) error { return nil })
}

// queue adds a batch to the next entry, if there is room for it and may says nothing against it.
func (p *Partition) queue(b batch, may func(l *leadership) error) {
	body, reply := b.body, b.reply
	if p.env.Waiting.Add(int64(len(body))) > maxWaiting {
		p.env.Waiting.Add(-int64(len(body)))
		reply.fail(mqerr.New(mqerr.Overloaded, "more than %d MiB of publishes wait on this node", maxWaiting>>20))
		return
	}
	fail := func(err error) {
		p.env.Waiting.Add(-int64(len(body)))
		reply.fail(err)
	}
	p.serve(fail, func(l *leadership) {
		switch {
		case !p.env.Store.PublishAllowed():
			fail(mqerr.New(mqerr.StorageFull, "the disk of the partition's leader is nearly full"))
			return
		case l.full:
			fail(mqerr.New(mqerr.StorageFull, "the topic has reached retention.bytes, and groups have not settled its oldest messages"))
			return
		}
		if err := may(l); err != nil {
			fail(err)
			return
		}
		l.batches = append(l.batches, b)
		l.batchBytes += len(body)
	})
}

// flush places what the events produced, as few entries as may be, and gives them to the store and to the
// followers. It runs after every round of events.
func (p *Partition) flush() {
	l := p.lead
	defer p.noteWait()
	for l != nil && l.serving && !l.seg.Sealed() && p.mayPlace(l) {
		urgent := l.machine.Urgent() || l.ahead.Looks() || l.book.Unwritten() > 0 || len(l.dead.ready) > 0
		if len(l.batches) == 0 && !l.answers.Waits() && !urgent {
			p.writeBehind(l)
			return
		}
		if !p.place(l) {
			return
		}
	}
}

// placeFull makes an entry within a round of events when there are records enough for one: with those of the whole round, or
// of all that come while the disk is busy, it might become larger than a store and a stream take.
func (p *Partition) placeFull() {
	if l := p.lead; l != nil && l.serving && !l.seg.Sealed() && l.records() > entryAbout {
		p.place(l)
	}
}

// records is how many bytes of records wait for an entry.
func (l *leadership) records() int { return l.machine.Pending() + l.book.Unwritten() }

// mayPlace holds entries back while one is on its way to a quorum, unless there is enough for another. A checkpoint holds nothing
// back: nobody waits for it, and a leader begins with one. The own disk is waited for only where there is no room for what it has not
// written.
func (p *Partition) mayPlace(l *leadership) bool {
	room := l.ownBytes < maxOwn && p.env.Own.Load() < maxOwnNode
	return len(l.own) == 0 || room && (l.batchBytes >= holdBelow || !l.seg.Commit().Before(l.newest))
}

// writeBehind makes sure that a first hand-over is written within 5 ms if nothing else takes it along.
func (p *Partition) writeBehind(l *leadership) {
	if l.machine.Pending() == 0 || l.behind != nil {
		return
	}
	l.behind = time.AfterFunc(writeBehind, func() {
		p.post(func() {
			if l.behind = nil; p.lead == l && l.serving && !l.seg.Sealed() && l.machine.Pending() > 0 {
				p.place(l)
			}
		})
	})
}

// place makes one entry of the machine's records and of batches up to about 1 MiB.
func (p *Partition) place(l *leadership) bool {
	size := min(l.batchBytes, entryAbout) + 512
	if len(l.batches) > 0 {
		size = max(size, len(l.batches[0].body)+512)
	}
	data := make([]byte, mq.EntryHeaderSize, mq.EntryHeaderSize+size)
	data = l.machine.TakeRecords(data)
	data = l.book.TakeRecords(data)
	clock := p.env.Clock.Now()
	now := max(clock, l.seg.Stamp())
	var e mq.Entry
	data, e.Count = p.placeReleases(l, data, clock) // by the clock itself: an earlier leader's may have been ahead
	data = l.placeDead(l.placeCarried(data))        // each does nothing when the entry is full
	data, n := p.placeBatches(l, &e, data, now)
	if len(data) == mq.EntryHeaderSize { // answers may wait all the same, but nothing new is stored: for what is placed already
		l.answerAt(l.seg.Next(), n, now)
		p.awaitPlaced(l)
		return len(l.batches) > 0
	}
	if err := l.seg.Place(&e, now); err != nil {
		p.stop(err)
		return false
	}
	e.PutHeader(data)
	l.answerAt(e.Next(), n, e.Stamp)
	l.answers.Placed(e.Next())
	p.send(l, &e, data)
	l.newest = e.Next()
	l.messages = l.messages || e.Count > 0
	p.env.Metrics.Appended.Add(float64(e.Count))
	return true
}

// placeBatches appends the records of the batches that fit the entry and gives their messages offsets or numbers; n is
// how many batches that were.
func (p *Partition) placeBatches(l *leadership, e *mq.Entry, data []byte, now int64) (_ []byte, n int) {
	for n < len(l.batches) {
		b := &l.batches[n]
		if len(data) > entryAbout || n > 0 && len(data)+len(b.body) > entryAbout {
			break
		}
		l.batchBytes -= len(b.body)
		p.env.Waiting.Add(-int64(len(b.body)))
		if b.first = l.seg.Next().Offset + uint64(e.Count); b.times != nil {
			b.first = l.book.Next()
		}
		if _, uses := mq.BatchShape(b.body); uses&mq.UsesIdempotency != 0 {
			l.takeRepeats(b, now)
		}
		switch {
		case b.count == 0:
		case b.times != nil:
			data = l.placeScheduled(b, data, now)
		default:
			data = mq.AppendRecord(data, mq.KindMessages, b.body)
			l.machine.Append(b.first, b.count, b.attributes)
			e.Count += b.count
			l.published.add(int(b.count))
		}
		n++
	}
	return data, n
}

// answerAt lets the answers to the first n batches, which are placed, wait for a position to be committed.
func (l *leadership) answerAt(at mq.Position, n int, stamp int64) {
	for i := range n {
		l.answers.At(at, l.batches[i].answer(stamp))
	}
	clear(l.batches[:n])
	if l.batches = l.batches[n:]; len(l.batches) == 0 {
		l.batches = nil
	}
}

// answer is what a placed batch is answered with once it is committed.
func (b *batch) answer(stamp int64) func(error) {
	if b.times != nil {
		return scheduled(b, stamp)
	}
	return appended(b.reply, frame.Appended{First: b.first, Count: b.count, Stamp: stamp, Repeats: b.repeats})
}

func appended(reply Reply, ok frame.Appended) func(error) {
	return func(err error) {
		if err != nil {
			reply.fail(err)
			return
		}
		reply(frame.TypeAppended, &ok)
	}
}

// awaitPlaced lets answers wait for the entries that are placed already, or answers them if all are committed.
func (p *Partition) awaitPlaced(l *leadership) {
	l.answers.Placed(l.seg.Next())
	l.release()
}

// afterCommit runs done when everything decided so far is committed.
func (l *leadership) afterCommit(done func(error)) { l.answers.Later(done) }

// send gives a placed entry to the own store and to every follower that is up to date.
func (p *Partition) send(l *leadership, e *mq.Entry, data []byte) {
	next := e.Next()
	verdict := segment.Refused
	if h := p.copies[e.Segment]; h != nil {
		verdict = h.copy.Offer(e, l.seg.Segment().Leader)
	}
	if err := l.seg.OwnCopy(verdict, e.At); err != nil {
		p.stop(err)
		return
	}
	l.own = append(l.own, placed{e.At, next, data})
	l.ownBytes += len(data)
	p.env.Own.Add(int64(len(data)))
	l.sinceOpen += int64(len(data))
	p.give(l)
	for i, f := range l.followers {
		if f != nil && f.Live(e.At) {
			p.sendTo(l, i, [][]byte{data}, next, len(data))
		}
	}
}

func (p *Partition) sendTo(l *leadership, i int, entries [][]byte, next mq.Position, bytes int) {
	s := l.seg.Segment()
	f := l.followers[i]
	body := frame.Entries{Segment: s.ID, Commit: l.seg.Commit(), Entries: entries}
	if !p.env.Peers.Send(s.Replicas[i].Store, frame.TypeEntries, &body) {
		f.Disconnect()
		return
	}
	f.Sent(next, bytes)
}

// give hands placed entries to the committer, in order. If its queue or the disk is full they are offered
// again until they are taken, because their positions are given.
func (p *Partition) give(l *leadership) {
	id := l.seg.Segment().ID
	for l.given < len(l.own) {
		e := l.own[l.given]
		w := written{e.at, e.next, e.data, p.copies[id].tries}
		err := p.env.Store.Append(store.Append{Segment: id, At: e.at, Next: e.next, Data: e.data, Done: func(err error) {
			p.post(func() { p.durable(id, w, err) })
		}})
		switch {
		case err == nil:
			l.given++
		case full(err):
			p.giveLater(l)
			return
		default:
			p.diskFailed(l, err)
			return
		}
	}
}

// full says that the store refused an entry which it may take later.
func full(err error) bool {
	return errors.Is(err, store.ErrBusy) || errors.Is(err, store.ErrStorageFull) || errors.Is(err, store.ErrOutOfOrder)
}

// giveLater offers entries again after a while; one timer does for all, however often the store has refused.
func (p *Partition) giveLater(l *leadership) {
	if l.giving {
		return
	}
	l.giving = true
	time.AfterFunc(retryGive, func() {
		p.post(func() {
			if l.giving = false; l.ctx.Err() == nil {
				p.give(l)
			}
		})
	})
}

// refused is the store's later word that it had no room for an entry it had queued: that one and those behind
// it, which are refused in turn, are offered again.
func (p *Partition) refused(l *leadership, w written) {
	h := p.copies[l.seg.Segment().ID]
	if w.try != h.tries {
		return // of a try before this one
	}
	for i, e := range l.own[:l.given] {
		if e.at == w.at {
			l.given = i
			h.tries++
			p.giveLater(l)
			return
		}
	}
}

// diskFailed is rule 6 of the open segment: a leader whose own disk fails stops and asks for a seal.
func (p *Partition) diskFailed(l *leadership, err error) {
	p.log.Error("the leader's disk failed", "err", err)
	l.seg.Seal()
	p.env.WantSeal(l.seg.Segment().ID, "the leader's disk failed")
}
