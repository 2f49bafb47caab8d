package push

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// However many endpoints take their time, their gateway holds a bounded number of bytes for them; beyond that every webhook
// still sends one message after the other.
func TestAllRunnersHoldABoundedNumberOfBytes(t *testing.T) {
	const hooks, size = 60, 1 << 20 // each may hold 8 MiB
	ok := func(uint64, uint32) answer { return status(200) }
	desks := make([]*desk, hooks+1)
	for i := range desks {
		desks[i] = newDesk(t, 20, ok)
		desks[i].size, desks[i].takes = size, time.Minute
	}
	late := desks[hooks]
	late.takes = time.Second
	synctest.Test(t, func(t *testing.T) {
		of := func(h *Hook) *desk { return desks[h.GroupID-1] }
		e := New(Config{Gateway: "gateway-1", Log: slog.New(slog.DiscardHandler), Source: Source{
			Fetch: func(ctx context.Context, h *Hook, most, bytes int) ([]Delivery, error) {
				return of(h).fetch(ctx, h, min(most, max(1, bytes/size)), bytes)
			},
			Return:  func(h *Hook, l []Delivery) { of(h).giveBack(h, l) },
			Settle:  func(ctx context.Context, h *Hook, s []Settlement) { of(h).settle(ctx, h, s) },
			Disable: late.disable}})
		e.makeSender = func(h *Hook) attempter { return of(h) }
		var all []*Hook
		for i := range desks {
			h := hookTo(t, "http://endpoint/")
			h.GroupID = mq.GroupID(i + 1)
			all = append(all, h)
		}
		e.Apply(all[:hooks])
		time.Sleep(time.Second)
		synctest.Wait()
		if held := e.held.Load(); held < mostHeld || held > mostHeld+hooks*size {
			t.Errorf("%d MiB are held by %d webhooks", held>>20, hooks)
		}
		e.Apply(all) // one more, whose endpoint is quick enough
		time.Sleep(21 * time.Second)
		if n := late.ackedNow(); n < 18 {
			t.Errorf("beside many endpoints that take a minute %d of 20 arrived", n)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		e.Stop(ctx)
		if held := e.held.Load(); held != 0 {
			t.Errorf("%d bytes are held by nobody", held)
		}
	})
}
