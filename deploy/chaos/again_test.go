package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// againWait bounds how long a message with an idempotency key is sent again and again: far within the window of
	// ten minutes, in which it must be known.
	againWait = 2 * time.Minute
	// againAge is how old a batch may be that is sent again: within the window too, with the wait added, and with
	// minutes to spare for clocks that are set apart.
	againAge = 5 * time.Minute
	// remembered bounds the batches that are kept to be sent once more.
	remembered = 64
)

// untilStored sends a batch with idempotency keys until each message is answered with its place, whatever the
// errors are. Each must be stored exactly once, however often it was sent; the checker and the ledger allow no copy.
func (p *producer) untilStored(ctx context.Context, b *batch) {
	b.places = make([]place, len(b.ids))
	answered := make([]bool, len(b.ids))
	for began := time.Now(); time.Since(began) < againWait; p.back(context.WithoutCancel(ctx)) {
		results, err := p.send(b)
		if err != nil {
			p.conflict(b, 0, err)
			continue
		}
		open := false
		for i, r := range results {
			switch {
			case r.Err != nil:
				open = open || !answered[i]
				p.tr.note("publish", r.Err)
				p.conflict(b, i, r.Err)
			case answered[i]:
				p.compare(b, i, r)
			default:
				answered[i], b.places[i] = true, place{r.Partition, r.Offset}
				p.stored(b, i, r)
			}
		}
		if !open {
			p.tr.gaps.acked(p.partition, time.Now())
			p.remember(b)
			return
		}
	}
	for i, id := range b.ids {
		if !answered[i] {
			p.tr.check.Unknown(id)
			p.tr.ledger.unknown(id)
		}
	}
}

// conflict is what a key must never be answered with that came with the same bytes each time.
func (p *producer) conflict(b *batch, i int, err error) {
	if client.IsCode(err, mqerr.IdempotencyConflict) {
		p.tr.broke("message %d was sent with the same bytes, and answered: %v", b.ids[i], err)
	}
}

func (p *producer) remember(b *batch) {
	b.stored = time.Now()
	if len(p.done) < remembered {
		p.done = append(p.done, b)
		return
	}
	p.done[p.random.IntN(remembered)] = b
}

// again sends now and then a batch that was answered long ago, perhaps by a leader that is no more. Each message must
// be known, at the place of then. Errors say nothing, and are not repeated.
func (p *producer) again() {
	if len(p.done) == 0 || p.random.IntN(4) > 0 {
		return
	}
	b := p.done[p.random.IntN(len(p.done))]
	if time.Since(b.stored) > againAge {
		return
	}
	results, err := p.send(b)
	if err != nil {
		p.conflict(b, 0, err)
		return
	}
	for i, r := range results {
		if r.Err != nil {
			p.tr.note("publish again", r.Err)
			p.conflict(b, i, r.Err)
			continue
		}
		p.compare(b, i, r)
		p.tr.duplicates.Add(1)
	}
}

// compare holds an answer against the one before.
func (p *producer) compare(b *batch, i int, r client.Result) {
	if at := (place{r.Partition, r.Offset}); at != b.places[i] || !r.Duplicate {
		p.tr.broke("message %d was stored at %v and answered with %v, duplicate: %v, when it came again", b.ids[i], b.places[i], at, r.Duplicate)
	}
}

// broke files a promise that was broken, in words.
func (tr *traffic) broke(format string, args ...any) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.broken++; tr.broken <= 20 {
		tr.examples = append(tr.examples, fmt.Sprintf(format, args...))
	}
}
