package chaos

import (
	"net/http"
	"testing"

	"github.com/splashdam/splashdam/shared/client"
)

// TestExportedJudge: dead letters without a copy, with two, and copies of nothing are found, and nothing else is.
func TestExportedJudge(t *testing.T) {
	answered, unknown, other := place{0, 1}, place{0, 2}, place{0, 3}
	for _, c := range []struct {
		name, want string
		copies     map[place]int
		dead       uint64
		back       uint64 // the fence of a delivery after the rejection; 0 for none
	}{
		{name: "one each", copies: map[place]int{answered: 1, unknown: 1}, dead: 2},
		{name: "what was not answered need not have died", copies: map[place]int{answered: 1}, dead: 1},
		{name: "lost", copies: map[place]int{unknown: 1}, dead: 1, want: "0/1 was rejected and has no copy"},
		{name: "twice", copies: map[place]int{answered: 1, unknown: 2}, dead: 2, want: "0/2 has 2 copies"},
		{name: "invented", copies: map[place]int{answered: 1, other: 1}, dead: 2, want: "0/3 was never rejected"},
		{name: "not said", copies: map[place]int{answered: 1}, dead: 2, want: "1 messages, and 2 are dead"},
		{name: "back", copies: map[place]int{answered: 1}, dead: 1, back: 3, want: "0/1 was rejected and came back"},
		{name: "handed out before, and long on its way", copies: map[place]int{answered: 1}, dead: 1, back: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f found
			s := newExported(f.broke)
			done := s.rejecting([]delivered{{&client.Delivery{Offset: 1}, 2}, {&client.Delivery{Offset: 2}, 2}})
			done(delivered{&client.Delivery{Offset: 1}, 2})
			if c.back > 0 {
				s.file(&client.Delivery{Offset: 1}, c.back)
			}
			s.judge(c.copies, c.dead)
			f.want(t, c.want)
		})
	}
}

// TestHookJudge: an attempt that never arrived, and what comes again for no reason, are found; what a fault or a late
// request explains is not.
func TestHookJudge(t *testing.T) {
	const calm, later = 1, 2 // epochs
	type request struct {
		attempt uint32
		fence   uint64
		epoch   int64
		taken   bool
	}
	for _, c := range []struct {
		name, want string
		requests   []request
	}{
		{name: "at once", requests: []request{{1, 1, calm, true}}},
		{name: "at the third try", requests: []request{{1, 1, calm, false}, {2, 2, calm, false}, {3, 3, calm, true}}},
		{name: "tries that do not count", requests: []request{{1, 1, calm, false}, {1, 2, calm, false}, {2, 3, calm, true}}},
		{name: "again after a fault", requests: []request{{1, 1, calm, true}, {1, 2, later, true}}},
		{name: "a late one", requests: []request{{2, 2, calm, true}, {1, 1, calm, true}}},
		{name: "a try too many", requests: []request{{1, 1, calm, false}, {3, 2, calm, true}}, want: "came as attempt 3"},
		{name: "a try that a fault swallowed", requests: []request{{1, 1, calm, false}, {3, 2, later, true}}},
		{name: "again for no reason", requests: []request{{1, 1, calm, true}, {1, 2, calm, true}}, want: "came again after it was taken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f found
			h := &hook{name: anyHook, arrivals: map[place]*arrivals{}, order: newOrder("webhook.any", f.broke)}
			for _, r := range c.requests {
				d := &client.Delivery{Offset: 1, Attempt: r.attempt}
				h.arrived(d, r.fence, r.epoch)
				if r.taken {
					h.taken(d, r.fence, r.epoch)
				}
			}
			f.want(t, c.want)
		})
	}
}

// TestHookRequest: what is no request of ours is an error and not a delivery.
func TestHookRequest(t *testing.T) {
	whole := http.Header{"Mq-Fence": {"00000000000000020000000000000003"}, "Mq-Partition": {"1"}, "Mq-Offset": {"7"}, "Mq-Attempt": {"2"},
		"Mq-Timestamp": {"2026-01-01T00:00:00.5Z"}, "Mq-Key": {"k"}, "Webhook-Id": {"id"}}
	d, fence, err := delivery(whole, []byte("v"))
	if err != nil || d.Partition != 1 || d.Offset != 7 || d.Attempt != 2 || string(d.Key) != "k" || d.ID != "id" || fence != 2<<40|3 {
		t.Errorf("%+v, %x, %v", d, fence, err)
	}
	for name := range whole {
		if name == "Mq-Key" || name == "Webhook-Id" {
			continue
		}
		head := whole.Clone()
		head.Set(name, "x")
		if _, _, err := delivery(head, nil); err == nil {
			t.Errorf("%s of x is taken", name)
		}
	}
}
