package load

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/splashdam/splashdam/loadtest/internal/wire"
)

// Publish publishes single messages or batches.
type Publish struct {
	Options `embed:""`
	Batch   int     `short:"b" default:"1" help:"Messages of a request; 1 takes the call for one message."`
	Rate    float64 `default:"0" help:"Messages a second over all connections, latencies counted from when each was due; 0: as many as are answered (closed loop)."`
	Keys    int     `default:"0" help:"Spread messages over so many keys; 0: no keys."`
	Runs    bool    `help:"Ask for results as runs of offsets (batches)."`
}

// Run puts the load on and reports it.
func (p *Publish) Run(ctx context.Context) (*Report, error) {
	if p.Batch < 1 || p.Batch > 10_000 || p.Rate < 0 || p.Keys < 0 {
		return nil, fmt.Errorf("--batch must be 1 to 10000, --rate and --keys not negative")
	}
	t, err := prepare(ctx, &p.Options)
	if err != nil {
		return nil, err
	}
	heads, body := p.request(t)
	mode := "publish"
	if p.Rate > 0 {
		mode = "publish, open loop"
	}
	r := newRun(mode, &p.Options, t, p)
	err = r.workers(ctx, p.Connections, finishing, func(ctx context.Context, number int, rec *recorder) {
		conn := t.conn(ctx, &p.Options, number)
		defer conn.Close()
		pace := newPace(p.Rate/float64(p.Batch), p.Connections, number, r.start)
		for i := number; ; i++ {
			due := pace.next(ctx)
			if ctx.Err() != nil || !due.Before(r.window.to) {
				return
			}
			p.once(ctx, conn, heads[i%len(heads)], body, due, rec)
		}
	})
	return r.finish(ctx, "publish", p.Size, err)
}

// once sends one request and files what became of it.
func (p *Publish) once(ctx context.Context, conn *wire.Conn, head, body []byte, due time.Time, rec *recorder) {
	answer, err := conn.Do(head, body)
	if ctx.Err() != nil {
		return
	}
	if err != nil || answer.Status > 201 || p.Batch > 1 && !bytes.Contains(answer.Body, []byte(`"failed":0`)) {
		rec.fail(codeOf(answer, err))
		var after time.Duration
		if err == nil {
			after = answer.RetryAfter
		}
		retryPause(ctx, after)
		return
	}
	rec.done(due, time.Now(), p.Batch)
}

// request makes the requests that all connections send: one body, and a head for each key of single
// messages. Values are random text, so that compression gains nothing by them.
func (p *Publish) request(t *target) (heads [][]byte, body []byte) {
	if p.Batch > 1 {
		body = batchBody(p.Batch, p.Size, p.Keys)
		path := t.path("/messages/batch")
		if p.Runs {
			path += "?results=runs"
		}
		return [][]byte{wire.Head(path, "application/json", len(body))}, body
	}
	body = randomText(p.Size)
	head := wire.Head(t.path("/messages"), "text/plain", len(body))
	if p.Keys == 0 {
		return [][]byte{head}, body
	}
	for key := range min(p.Keys, 4096) {
		// The blank line ends the head; the key goes before it.
		one := append([]byte(nil), head[:len(head)-2]...)
		heads = append(heads, append(one, "Mq-Key: key-"+strconv.Itoa(key)+"\r\n\r\n"...))
	}
	return heads, body
}

func batchBody(n, size, keys int) []byte {
	b := []byte(`{"messages":[`)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, size, i, keys)
	}
	return append(b, "]}"...)
}

func appendItem(b []byte, size, number, keys int) []byte {
	b = append(b, `{"value":"`...)
	b = append(b, randomText(size)...)
	b = append(b, '"')
	if keys > 0 {
		b = append(b, `,"key":"key-`...)
		b = append(strconv.AppendInt(b, int64(number%keys), 10), '"')
	}
	return append(b, '}')
}

// randomText is n characters that need no escapes in JSON.
func randomText(n int) []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return b
}
