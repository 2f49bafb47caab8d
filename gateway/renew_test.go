package gateway

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

// A member's lease is renewed after signs of life, and no more often than four times in a ttl; so it never ends sooner
// than a ttl after the last one, and at most a quarter later.
func TestRenewalsFollowSignsOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRenewals(nil, slog.New(slog.DiscardHandler))
		m := meta.Member{Name: "a", Group: 1, TTL: mq.Duration(8 * time.Second), Lease: 5}
		due := func(want int, what string) {
			t.Helper()
			if n := len(r.due(time.Now())); n != want {
				t.Errorf("%s: %d renewals, want %d", what, n, want)
			}
		}
		r.hear(m)()
		due(1, "the first sign")
		time.Sleep(time.Second)
		r.hear(m)()
		due(0, "a sign after an eighth of the ttl")
		time.Sleep(time.Second)
		due(1, "that sign, when it is time") // heard a second ago
		time.Sleep(3 * time.Second)
		due(0, "silence")
		leave := r.hear(m)
		due(1, "a call that begins to wait")
		time.Sleep(2 * time.Second)
		due(1, "the same call, waiting")
		leave()
		leave() // twice is once
		time.Sleep(2 * time.Second)
		due(0, "after it ended")
		// It joined again: another lease, of which nothing is known yet.
		again := m
		again.Lease = 6
		r.hear(again)()
		due(1, "another lease")
		time.Sleep(9 * time.Second)
		due(0, "silence for a ttl")
		if r.any() {
			t.Error("who is silent for a ttl is forgotten, and nobody is looked for any more")
		}
	})
}
