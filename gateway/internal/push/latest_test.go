package push

import (
	"context"
	"log/slog"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

// keeper is an endpoint that keeps by which version of the webhook each attempt is made.
type keeper struct{ by chan *Hook }

func (k keeper) send(_ context.Context, h *Hook, _ *event) answer {
	k.by <- h
	return status(200)
}

func (keeper) close() {}

// What was fetched is sent by what the engine was told last, and not by what held when it was asked for: also where a runner could
// hear of both at once.
func TestSentByWhatWasToldLast(t *testing.T) {
	for _, x := range []struct {
		name string
		tell func(r *runner, h *Hook)
		sent bool
	}{
		{"the secret was rotated", func(r *runner, h *Hook) {
			h.Secrets = append([]Secret{{Key: []byte("new")}}, h.Secrets...)
			r.update(h)
		}, true},
		{"paused", func(r *runner, h *Hook) { h.Paused = true; r.update(h) }, false},
		{"not served here any more", func(r *runner, _ *Hook) { r.stop() }, false},
	} {
		k, returned := keeper{make(chan *Hook, 1)}, 0
		e := New(Config{Log: slog.New(slog.DiscardHandler), Source: Source{Return: func(_ *Hook, d []Delivery) { returned += len(d) }}})
		e.makeSender = func(*Hook) attempter { return k }
		r := newRunner(e, hookTo(t, "http://x/"))
		r.fetching, r.endFetch = true, func() {}
		newer := hookTo(t, "http://x/")
		newer.Revision = 2
		x.tell(r, newer)
		r.take(fetched{deliveries: []Delivery{{ID: mq.MessageID{Number: 1}}}})
		r.work.Wait()
		if x.sent != (returned == 0) {
			t.Errorf("%s: %d messages were given back", x.name, returned)
		}
		select {
		case by := <-k.by:
			if !x.sent || by != newer {
				t.Errorf("%s: sent by revision %d with %d secrets", x.name, by.Revision, len(by.Secrets))
			}
		default:
			if x.sent {
				t.Errorf("%s: nothing was sent", x.name)
			}
		}
	}
}
