package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// streamSlots and streamBytes bound what one stream has read and not answered yet; beyond them it reads no
	// further, and TCP slows the client down.
	streamSlots = 20_000
	streamBytes = 16 << 20
	// streamKick is how much of a partition is gathered at most before it is sent, while lines keep coming.
	streamKick = 256 << 10
)

// lineStream is one publish stream: a message a line in, a result a line out, in the same order. Lines
// that are there together go into one batch per partition. Three kinds of goroutines: the request's own
// reads lines, one writes results, and one per partition sends its batches, one at a time, so that the
// order within a key holds whatever happens to a batch.
type lineStream struct {
	g        *Gateway
	ctx      context.Context
	cancel   context.CancelFunc // when the client is gone
	topic    meta.Topic
	producer string
	control  *http.ResponseController
	out      io.Writer
	work     sync.WaitGroup

	keyless uint32           // where lines without key or partition go for the moment; the reader's own
	lanes   map[uint32]*lane // the reader's own

	mu      sync.Mutex
	changed sync.Cond // slots or bytes went down, slots were added, or ended
	slots   []slot    // results that are to be written, in order; at most streamSlots
	bytes   int       // of batches that are not answered yet
	ended   bool      // no more slots come
	broken  bool      // results can't be written any more
}

// lane is a stream's way to one partition.
type lane struct {
	partition uint32
	open      [2]*outgoing  // that grow, of ordinary and of scheduled messages; nil if there is none. The reader's own
	wake      chan struct{} // capacity 1

	// Guarded by lineStream.mu.
	ready  []*outgoing // bounded by streamBytes
	closed bool
	busy   bool
}

// publishStream answers each line when its message is committed, until the client ends its body, leaves,
// or the gateway drains: every line that was read is answered before the stream ends.
func (g *Gateway) publishStream(c echo.Context, name string) error {
	body := newStreamBody(g, c.Request())
	if err := body.known(); err != nil {
		return err
	}
	t, err := g.publishLimits(c.Request().Context(), name)
	if err != nil {
		return err
	}
	control := http.NewResponseController(c.Response().Writer)
	if err := control.EnableFullDuplex(); err != nil && c.Request().ProtoMajor < 2 {
		return mqerr.New(mqerr.InvalidRequest, "streaming both ways needs HTTP/1.1 or 2")
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	s := &lineStream{g: g, ctx: ctx, cancel: cancel, topic: t, producer: c.RealIP(), control: control,
		out: c.Response(), lanes: map[uint32]*lane{}}
	s.changed.L = &s.mu
	_ = control.SetWriteDeadline(time.Now().Add(g.cfg.IdleTimeout))
	if c.Request().Header.Get("Expect") != "" {
		// net/http says so at the first read, but not any more once the answer has begun. Past echo, for which
		// this would be the answer.
		c.Response().Writer.WriteHeader(http.StatusContinue)
	}
	c.Response().Header().Set(echo.HeaderContentType, ndjson)
	c.Response().WriteHeader(http.StatusOK)
	if control.Flush() != nil { // a client may wait for the answer to begin before it sends lines
		return nil // the client is gone
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.write()
	}()
	stopped := make(chan struct{})
	s.work.Add(1)
	go func() { // a drain ends the reading, and so does a client that is gone
		defer s.work.Done()
		select {
		case <-g.draining:
		case <-ctx.Done():
		case <-stopped:
			return
		}
		_ = control.SetReadDeadline(time.Unix(1, 0))
	}()
	s.read(body)
	if err := body.close(); err != nil {
		s.push(slot{err: err}, 0)
		s.drop(body.raw.ReadCloser)
	}
	close(stopped)
	s.end()
	<-written
	return nil
}

// drop reads what the client still sends after an error of the packing, until it ends its body: a connection that is closed
// with something unread is reset, perhaps under the client's next request.
func (s *lineStream) drop(rest io.Reader) {
	_ = s.control.SetReadDeadline(time.Now().Add(s.g.cfg.IdleTimeout))
	if !s.drained() { // else the drain's deadline was just overwritten
		_, _ = io.CopyN(io.Discard, rest, mostDrained)
	}
}

// read takes lines until there are no more.
func (s *lineStream) read(in io.Reader) {
	lines := lineReader{in: bufio.NewReaderSize(in, 64<<10), limit: s.maxLine(), memory: s.g.buffered}
	defer lines.release()
	r := &itemReader{maxValue: s.topic.Settings.MaxMessageBytes, index: -1, clock: s.g.clock}
	fresh := true // whether the burst that is being read has chosen where keyless lines go
	for !s.drained() {
		if fresh {
			_ = s.control.SetReadDeadline(time.Now().Add(s.g.cfg.IdleTimeout))
			if s.drained() {
				return // the drain's deadline may just have been overwritten
			}
		}
		line, err := lines.next()
		var dropped *mqerr.Error
		if errors.As(err, &dropped) || len(line) > 0 {
			if fresh && s.topic.ID != 0 {
				s.choose()
			}
			fresh = false
			if !s.take(r, line, dropped) {
				return
			}
		}
		if err != nil && dropped == nil {
			return
		}
		if !lines.more() {
			s.kick()
			fresh = true
		}
	}
}

func (s *lineStream) drained() bool {
	select {
	case <-s.g.draining:
		return true
	case <-s.ctx.Done():
		return true
	default:
		return false
	}
}

// take reads one line into its batch, or answers why it was dropped; false ends the stream.
func (s *lineStream) take(r *itemReader, line []byte, dropped *mqerr.Error) bool {
	at := slot{err: dropped}
	if dropped == nil {
		at.err = s.parse(r, line)
	}
	if at.err == nil && s.topic.ID == 0 {
		t, err := s.g.topicToPublish(s.ctx, s.topic.Name)
		if err != nil {
			at.err = asError(err)
		} else {
			s.topic = t
			s.choose()
		}
	}
	if at.err == nil {
		partition := r.partition
		if anywhere(&r.msg, partition) {
			partition = int64(s.keyless)
		}
		n, bad := choose(s.topic, &r.msg, partition)
		if bad == nil {
			return s.add(s.lane(n), r)
		}
		at.err = bad
	}
	return s.push(at, 0)
}

// parse reads one line into r.
func (s *lineStream) parse(r *itemReader, line []byte) *mqerr.Error {
	r.scan.Reset(line)
	err := r.read()
	if err == nil {
		err = r.scan.End()
	}
	if err != nil {
		return asError(invalidJSON(err))
	}
	return r.err
}

// maxLine is the length of a line with a message of the largest size, most of which need no escapes.
func (s *lineStream) maxLine() int { return 2*s.topic.Settings.MaxMessageBytes + 1<<20 }

// choose picks where the keyless lines of this burst go: the gateway's partition of the moment, or the next
// one that has nothing under way.
func (s *lineStream) choose() {
	first := s.g.nextPartition(s.topic)
	s.keyless = first
	now := s.g.elapsed()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.topic.Settings.Partitions {
		n := (first + i) % s.topic.Settings.Partitions
		if l := s.lanes[n]; l != nil && (l.busy || len(l.ready) > 0) {
			continue
		}
		if p := (mq.PartitionID{Topic: s.topic.ID, Number: n}); s.g.router.Led(p) && !s.g.refusals.has(p, now) {
			s.keyless = n
			return
		}
	}
}

func (s *lineStream) lane(n uint32) *lane {
	l := s.lanes[n]
	if l == nil {
		l = &lane{partition: n, wake: make(chan struct{}, 1)}
		s.lanes[n] = l
		s.work.Add(1)
		go func() {
			defer s.work.Done()
			s.run(l)
		}()
	}
	return l
}

// add puts the line that was read into the lane's batch.
func (s *lineStream) add(l *lane, r *itemReader) bool {
	m, at := &r.msg, r.at
	open := &l.open[0]
	if at != 0 {
		open = &l.open[1]
	}
	if *open != nil && !(*open).roomFor(m.Size()) {
		s.hand(l, open)
	}
	if *open == nil {
		*open = newOutgoing(s.topic.ID, way{l.partition, at != 0})
		(*open).done = make(chan struct{})
	}
	b := *open
	before := b.builder.Size()
	x := slot{batch: b, ordinal: int32(b.builder.Len())}
	b.add(m, at)
	b.bound = b.bound || !anywhere(m, r.partition)
	size := b.builder.Size()
	if size >= streamKick {
		s.hand(l, open)
	}
	return s.push(x, size-before)
}

// hand gives a batch of the lane to its sender.
func (s *lineStream) hand(l *lane, open **outgoing) {
	s.mu.Lock()
	l.ready = append(l.ready, *open)
	*open = nil
	s.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// kick sends what was gathered.
func (s *lineStream) kick() {
	for _, l := range s.lanes {
		for i := range l.open {
			if l.open[i] != nil {
				s.hand(l, &l.open[i])
			}
		}
	}
}

// push adds a result to be written, and waits while too many are.
func (s *lineStream) push(at slot, size int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots = append(s.slots, at)
	s.bytes += size
	s.changed.Broadcast()
	for !s.broken && (len(s.slots) >= streamSlots || s.bytes >= streamBytes) {
		s.mu.Unlock()
		s.kick() // what is waited for may not be on its way yet
		s.mu.Lock()
		if !s.broken && (len(s.slots) >= streamSlots || s.bytes >= streamBytes) {
			s.changed.Wait()
		}
	}
	return !s.broken
}

// run sends a lane's batches one after the other; those that wait behind one that is under way were
// gathered meanwhile.
func (s *lineStream) run(l *lane) {
	for {
		s.mu.Lock()
		l.busy = len(l.ready) > 0
		if !l.busy {
			closed := l.closed
			s.mu.Unlock()
			if closed {
				return
			}
			<-l.wake
			continue
		}
		b := l.ready[0]
		l.ready[0] = nil
		l.ready = l.ready[1:]
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(s.ctx, s.g.cfg.RequestTimeout)
		s.g.sendBatch(ctx, s.topic, b, s.producer)
		cancel()
		close(b.done)
	}
}

// end sends what is left and waits for all senders.
func (s *lineStream) end() {
	s.kick()
	s.mu.Lock()
	for _, l := range s.lanes {
		l.closed = true
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
	s.ended = true
	s.changed.Broadcast()
	s.mu.Unlock()
	s.work.Wait()
}
