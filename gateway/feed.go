package gateway

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/gateway/internal/waiter"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// aliveEvery is how often a stream without messages says that it lives.
	aliveEvery = 15 * time.Second
	// feedMessages and feedBytes bound what a stream takes from a leader at a time; one message comes whatever its size.
	feedMessages = 256
	feedBytes    = 128 << 10
	// maxFeeding bounds the bytes that all streams have taken and not written yet. Beyond it a stream gives back what it
	// took and waits until others have written, or were cut off for reading nothing.
	maxFeeding = 512 << 20
	// Without credit, leaders are asked after firstCheck, then less and less often, whether something was settled
	// without them having told.
	firstCheck = time.Second
	lastCheck  = 5 * time.Second

	// defaultCredit is small: what is out when a process dies has used up an attempt, whether it was begun or not.
	defaultCredit = 16
	maxCredit     = 10_000
)

// feed hands the messages of a group to one client, as far as its credit goes, until the client leaves, the group is
// deleted or the gateway drains. It is the same for events (SSE) and WebSockets, and belongs to one goroutine.
//
// Credit counts what is out and not settled. A message is out when it was written whole: what a client did not get is
// given back uncounted; what it got stays leased to it when it goes, so that it may settle by another connection.
type feed struct {
	g       *Gateway
	r       receive // one round of it: what is asked for stays, the rest is new each time
	account *account
	// send writes messages, each an api.Delivery as JSON, about pieceBytes of them, and flushes. What it returned nil for
	// is confirmed.
	send func(messages [][]byte) error
	// alive is called about every aliveEvery.
	alive func() error
	// most is how many messages the client wants in all, 0 for no bound. Credit can't say that: what is settled makes room.
	most int

	sent       int // messages that were written
	tick       *time.Ticker
	wait       *waiter.Waiter
	partitions uint32 // that it waits for
	items      []fed
	piece      [][]byte
}

// fed is a message that was encoded: its hand-over's index, and where its JSON ends.
type fed struct {
	from   int
	offset uint64
	end    int
}

// run delivers until it is over. nil says that the client has as many as it wants (full), or that the gateway drains.
func (f *feed) run(ctx context.Context) error {
	defer f.g.accounts.close(f.account)
	defer f.r.release()
	f.r.account = f.account.id
	f.tick = time.NewTicker(aliveEvery)
	defer f.tick.Stop()
	if err := f.join(ctx); err != nil {
		return err
	}
	defer f.leave()
	all := true // what became ready before the place in the queue was taken has woken nobody
	for !f.full() && !f.g.isDraining() {
		moved, err := f.moved(ctx)
		if err != nil {
			return err
		}
		all = all || moved
		if f.account.room() <= 0 {
			f.wait.Rest()
			if err := f.untilCredit(ctx); err != nil {
				return err
			}
			continue
		}
		var order []uint32
		if all {
			order = f.r.order()
		} else {
			f.wait.Park()
			woken, err := f.untilWoken(ctx)
			if err != nil {
				return err
			}
			if !woken {
				if all, err = f.grown(ctx); err != nil {
					return err
				}
				continue
			}
			order = []uint32{f.wait.Hint()}
		}
		cut, err := f.round(ctx, order)
		if err != nil {
			return err
		}
		all = all && cut // some were not asked yet
	}
	return nil
}

// full says that the client has as many as it wants.
func (f *feed) full() bool { return f.most > 0 && f.sent >= f.most }

// leave ends the waiting, if it was joined.
func (f *feed) leave() {
	if f.wait != nil {
		f.wait.Leave()
		f.wait = nil
	}
}

func (f *feed) join(ctx context.Context) (err error) {
	if err := f.r.follow(); err != nil {
		return err
	}
	f.partitions = f.r.topic.Settings.Partitions
	f.wait, err = f.g.waits.Join(ctx, f.r.topic.ID, f.r.group.ID, f.partitions, f.r.only)
	return err
}

// moved takes up a new assignment, in a group whose partitions have owners.
func (f *feed) moved(ctx context.Context) (bool, error) {
	select {
	case <-f.r.member.owned.changed:
	default:
		return false, nil
	}
	f.leave()
	return true, f.join(ctx)
}

// grown waits for the partitions, too, that the topic has got meanwhile.
func (f *feed) grown(ctx context.Context) (bool, error) {
	t, ok := f.g.view.TopicByID(f.r.topic.ID)
	if !ok || t.Deleted || t.Settings.Partitions <= f.partitions || f.r.only != nil {
		return false, nil
	}
	f.r.topic = t
	f.leave()
	return true, f.join(ctx)
}

// untilWoken waits until the stream should ask; false for anything else that may have changed.
func (f *feed) untilWoken(ctx context.Context) (bool, error) {
	select {
	case <-f.wait.Woken():
		return true, nil
	case <-f.account.changed:
		return false, nil
	case <-f.r.member.owned.changed:
		return false, nil
	case <-f.tick.C:
		return false, f.alive()
	case <-f.wait.Gone():
		return false, f.r.gone()
	case <-f.g.draining:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// untilCredit waits until something may be out again.
func (f *feed) untilCredit(ctx context.Context) error {
	pause := firstCheck
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for f.account.room() <= 0 {
		select {
		case <-f.account.changed:
		case <-f.r.member.owned.changed:
			return nil
		case <-timer.C:
			if !f.account.check(ctx, f.g, f.r.topic.ID, f.r.group.ID) {
				pause = min(2*pause, lastCheck)
			}
			timer.Reset(pause)
		case <-f.tick.C:
			if err := f.alive(); err != nil {
				return err
			}
		case <-f.wait.Gone():
			return f.r.gone()
		case <-f.g.draining:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// round asks the leaders for as much as there is credit for and delivers what they hand over. cut says that it was as
// much as was wanted: there may be more, also in partitions that were not asked.
func (f *feed) round(ctx context.Context, order []uint32) (cut bool, err error) {
	r := &f.r
	r.max, r.maxBytes = uint32(min(f.account.room(), feedMessages)), feedBytes
	if f.most > 0 {
		r.max = min(r.max, uint32(f.most-f.sent))
	}
	r.got, r.count, r.bytes = r.got[:0], 0, 0
	if err = r.fetch(ctx, order); err == nil && r.count > 0 && callerGone(ctx) {
		err = mqerr.New(mqerr.Cancelled, "")
	}
	switch {
	case err != nil:
		r.giveBack()
		if final(err) {
			return false, err
		}
		return false, nil // what may pass is waited out: the question of the next second finds what is there
	case r.count == 0:
		return false, nil
	}
	cut = r.count >= r.max || r.bytes >= int(r.maxBytes)
	size := int64(0)
	for i := range r.got {
		for j := range r.got[i].Chunks {
			size += 3*int64(len(r.got[i].Chunks[j].Batch)) + 1<<10
		}
	}
	size = min(size, maxFeeding)
	if !f.g.feeding.TryAcquire(size) {
		r.giveBack()
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if f.g.feeding.Acquire(ctx, size) == nil {
			f.g.feeding.Release(size) // there is room: ask again
		}
		return true, nil
	}
	defer f.g.feeding.Release(size)
	f.wait.Requeue()
	return cut, f.deliver()
}

// deliver writes what was handed over, and confirms what was written.
func (f *feed) deliver() error {
	r := &f.r
	buf := packed.Get().(*[]byte)
	b := (*buf)[:0]
	defer func() {
		if cap(b) <= mostKept {
			*buf = b
			packed.Put(buf)
		}
	}()
	f.items = f.items[:0]
	signer := r.signer()
	from := 0
	err := r.each(func(h *handed, m *mq.Message, at *given) {
		for &r.got[from] != h {
			from++
		}
		b = r.appendDelivery(b, signer, h, m, at)
		f.items = append(f.items, fed{from, at.offset, len(b)})
	})
	if err != nil {
		if err = r.undo(err); mqerr.Is(err, mqerr.PartitionDamaged) {
			return nil // the stream goes on with the others
		}
		return err
	}
	for i := range r.got {
		f.account.add(&r.got[i])
		r.got[i].Chunks = nil // the JSON is all that is needed from here on
	}
	done, err := f.write(b)
	f.sent += done
	f.settleHandovers(done)
	f.g.metrics.received.Add(float64(done))
	return err
}

// write writes the messages in b piece by piece and says how many were written.
func (f *feed) write(b []byte) (done int, err error) {
	start := 0
	for done < len(f.items) {
		f.piece = f.piece[:0]
		size, n := 0, done
		for ; n < len(f.items) && (size == 0 || size+f.items[n].end-start <= pieceBytes); n++ {
			f.piece = append(f.piece, b[start:f.items[n].end])
			size += f.items[n].end - start
			start = f.items[n].end
		}
		err = f.send(f.piece)
		clear(f.piece)
		if err != nil {
			return done, err
		}
		done = n
	}
	return done, nil
}

// settleHandovers confirms the first n messages, which were written, and gives the others back.
func (f *feed) settleHandovers(n int) {
	for i := range f.r.got {
		h := &f.r.got[i]
		var back []uint64
		for at := range f.items {
			if f.items[at].from == i && at >= n {
				back = append(back, f.items[at].offset)
			}
		}
		// On an ended stream there is nobody to tell: the node took back what was not confirmed.
		if len(back) > 0 {
			_ = h.session.Return(h.partition, f.r.group.ID, h.handover, back)
			f.g.metrics.returned.Inc()
		}
		_ = h.session.Confirm(h.partition, f.r.group.ID, h.handover)
	}
}

// gone is why a wait for a group that was deleted ends.
func (r *receive) gone() error {
	if t, ok := r.g.view.TopicByID(r.topic.ID); !ok || t.Deleted {
		return mqerr.New(mqerr.TopicNotFound, "topic %s was deleted", r.topic.Name)
	}
	return mqerr.New(mqerr.GroupNotFound, "group %s was deleted", r.group.Name)
}

// standing is what this gateway's view says of a group.
func (g *Gateway) standing(topic mq.TopicID, group mq.GroupID) waiter.Standing {
	t, ok := g.view.TopicByID(topic)
	if ok && t.Deleted {
		return waiter.Deleted
	}
	if ok && group == frame.TailGroup {
		return waiter.Alive
	}
	switch gr, known := g.view.GroupByID(group); {
	case !ok || !known:
		return waiter.Unknown
	case gr.Deleted:
		return waiter.Deleted
	}
	return waiter.Alive
}

// endWaits tells who waits for a group that was deleted, until ctx ends.
func (g *Gateway) endWaits(ctx context.Context) {
	changes, cancel := g.view.Subscribe()
	defer cancel()
	pause := time.NewTicker(100 * time.Millisecond) // changes come in bursts, and there may be many queues
	defer pause.Stop()
	for {
		select {
		case <-changes:
			g.waits.End(g.standing)
		case <-ctx.Done():
			return
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
	}
}
