package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/cursor"
	"github.com/splashdam/splashdam/gateway/internal/jsonscan"
	"github.com/splashdam/splashdam/gateway/internal/replay"
	"github.com/splashdam/splashdam/gateway/internal/waiter"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// clockLook is how often a reader that waits looks whether its range is over by the clock.
	clockLook = 500 * time.Millisecond
	// clockMargin is how long after an upper end in time stamps below it may still appear: clocks differ.
	clockMargin = 5 * time.Second
)

// handleRead answers committed messages without a group.
func (g *Gateway) handleRead(c echo.Context) error {
	q, err := g.parseRead(c)
	if err != nil {
		return err
	}
	if q.form != formJSON {
		return g.streamRead(c, &q)
	}
	ctx := c.Request().Context()
	p, err := g.nextPage(ctx, &q, q.limit)
	if err == nil && len(p.items) == 0 && q.wait > 0 && !g.rangeDone(q.reader) {
		p.release() // what waits holds nothing
		waitCtx, cancel := context.WithTimeout(ctx, q.wait)
		p, err = g.awaitFirst(waitCtx, &q, q.limit)
		cancel()
	}
	if err != nil {
		return err
	}
	defer p.release()
	return g.answerPage(c, &q, p.items)
}

// page is messages on their way to a caller. It holds its bytes of Gateway.reading until it is released: reads
// have a bound of their own, so that many of them don't keep publishes out.
type page struct {
	items  []replay.Item
	states [][]byte // behind each item, for events only
	g      *Gateway
	held   int64
}

func (p *page) release() {
	p.keep(0)
	p.items, p.states = nil, nil
}

// keep gives back what is held beyond size.
func (p *page) keep(size int64) {
	if size < p.held {
		p.g.reading.Release(p.held - size)
		p.held = size
	}
}

// nextPage asks the leaders for a page, once there is room for one. The caller releases it.
func (g *Gateway) nextPage(ctx context.Context, q *readQuery, limit int) (page, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.RequestTimeout)
	defer cancel()
	if err := g.reading.Acquire(ctx, readBudget); err != nil {
		return page{}, mqerr.New(mqerr.Overloaded, "too many bytes are being read through this gateway")
	}
	p := page{g: g, held: readBudget}
	var err error
	if q.form == formSSE {
		p.items, p.states, err = q.reader.PageStates(ctx, min(limit, eventPage), readPageBytes)
	} else {
		p.items, err = q.reader.Page(ctx, limit, readPageBytes)
	}
	if err != nil {
		p.release()
		return page{}, err
	}
	size := int64(0)
	for i := range p.items {
		size += 3*int64(p.items[i].Message.Size()) + 1<<10
	}
	p.keep(size)
	return p, nil
}

// awaitFirst is awaitPage for a caller that waits once.
func (g *Gateway) awaitFirst(ctx context.Context, q *readQuery, limit int) (page, error) {
	f, err := g.waits.Follow(ctx, q.topic.ID, q.topic.Settings.Partitions)
	if err != nil {
		return page{}, err
	}
	defer f.Leave()
	return g.awaitPage(ctx, q, f, limit)
}

// awaitPage waits for the first messages of a dry reader; nothing when ctx or the gateway ends first.
func (g *Gateway) awaitPage(ctx context.Context, q *readQuery, f *waiter.Follower, limit int) (page, error) {
	clock := time.NewTicker(clockLook)
	defer clock.Stop()
	for {
		select {
		case <-ctx.Done():
			return page{}, nil
		case <-g.draining:
			return page{}, nil
		case <-f.Gone():
			return page{}, mqerr.New(mqerr.TopicNotFound, "topic %s was deleted", q.topic.Name)
		case <-clock.C:
			if g.rangeDone(q.reader) {
				return page{}, nil
			}
			continue
		case <-f.Changed():
		}
		q.reader.Again(f.Asking())
		p, err := g.nextPage(ctx, q, limit)
		if err != nil && ctx.Err() != nil {
			return page{}, nil // the wait ended within the last look
		}
		if err != nil || len(p.items) > 0 || g.rangeDone(q.reader) {
			return p, err
		}
		p.release()
	}
}

// rangeDone says that nothing will be added to the range.
func (g *Gateway) rangeDone(r *replay.Reader) bool {
	return r.Over() || r.Dry() && r.Passed(g.clock.now().Add(-clockMargin))
}

// answerPage writes an api.ReadAnswer.
func (g *Gateway) answerPage(c echo.Context, q *readQuery, items []replay.Item) error {
	size := 128
	for i := range items {
		size += items[i].Message.Size()*4/3 + 256
	}
	b := append(make([]byte, 0, size), `{"messages":[`...)
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, q, &items[i])
	}
	b = append(b, ']')
	if !g.rangeDone(q.reader) {
		next, err := g.readCursor(q)
		if err != nil {
			return err
		}
		b = append(append(append(b, `,"next_cursor":"`...), next...), '"')
	}
	if q.reader.Dry() {
		b = append(b, `,"at_end":true}`...)
	} else {
		b = append(b, `,"at_end":false}`...)
	}
	return g.blob(c, http.StatusOK, echo.MIMEApplicationJSON, append(b, '\n'))
}

func (g *Gateway) readCursor(q *readQuery) (string, error) {
	return g.sealCursor(cursor.Read, readScope(q.topic), q.reader.AppendState(nil))
}

// appendItem appends an api.Message.
func appendItem(b []byte, q *readQuery, it *replay.Item) []byte {
	return append(appendMessage(append(b, '{'), it.ID, &it.Message, where{it.Offset, true, it.Stamp, q.alwaysBase64}), '}')
}

// handleMessage answers one message by its id, or with ?raw=true its value as it is.
func (g *Gateway) handleMessage(c echo.Context) error {
	raw, err := queryBool(c, "raw")
	if err != nil {
		return err
	}
	always, err := queryEncoding(c)
	if err != nil {
		return err
	}
	id, t, err := g.pathMessage(c)
	if err != nil {
		return err
	}
	archived, err := g.queryArchived(c, t)
	if err != nil {
		return err
	}
	offset := id.Number
	if id.Scheduled {
		ctx, cancel := context.WithTimeout(c.Request().Context(), g.cfg.RequestTimeout)
		defer cancel()
		found, err := g.findScheduled(ctx, id, archived)
		if err != nil {
			return err
		}
		if !found.GetReleased() {
			return g.answerPending(c, id, t, found, raw, always)
		}
		offset = found.GetOffset()
	}
	at := func(o uint64) frame.Place { return frame.Place{Where: frame.AtOffset, Value: o} }
	q := readQuery{topic: t, reader: replay.New(replay.Query{Topic: t.ID, From: at(offset), To: at(offset + 1), Archived: archived,
		Unpack: func(b *mq.Batch) ([]byte, error) { return g.packer.Body(b, nil) }}, []uint32{id.Partition.Number}, g.fetchRead)}
	p, err := g.nextPage(c.Request().Context(), &q, 1)
	if err != nil {
		return notThere(id, err)
	}
	defer p.release()
	if len(p.items) == 0 || p.items[0].ID != id { // a scheduled message has no other id, by its offset neither
		return mqerr.New(mqerr.MessageNotFound, "message %s", id)
	}
	m := &p.items[0]
	if raw {
		return answerRaw(c, m)
	}
	b := append(make([]byte, 0, m.Message.Size()*4/3+512), `{"topic":`...)
	b = jsonscan.AppendString(b, t.Name)
	b = appendMessage(append(b, ','), m.ID, &m.Message, where{m.Offset, true, m.Stamp, always})
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, append(b, '}', '\n'))
}
