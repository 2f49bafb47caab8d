package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mq"
)

// found gathers what a judge says.
type found []string

func (f *found) broke(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

func (f *found) want(t *testing.T, words string) {
	t.Helper()
	if words == "" && len(*f) > 0 || words != "" && (len(*f) == 0 || !strings.Contains((*f)[0], words)) {
		t.Errorf("the judge says %q, and not %q", *f, words)
	}
}

// TestOrderJudge: what a group that orders by key must not do is found, and nothing else is.
func TestOrderJudge(t *testing.T) {
	const get, ack = true, false
	type event struct {
		get           bool
		offset, fence uint64
	}
	for _, c := range []struct {
		name, want string
		events     []event
		free       bool
	}{
		{name: "one after the other", events: []event{{get, 1, 1}, {ack, 1, 1}, {get, 4, 2}, {ack, 4, 2}}},
		{name: "again before the next", events: []event{{get, 1, 1}, {get, 1, 2}, {ack, 1, 2}, {get, 4, 3}}},
		{name: "a delivery that was on its way for long", events: []event{{get, 1, 2}, {ack, 1, 2}, {get, 4, 3}, {get, 1, 1}}},
		{name: "what expires lets the next one go", events: []event{{get, 1, 1}, {get, 4, 2}}, free: true},
		{name: "two out", events: []event{{get, 1, 1}, {get, 4, 2}}, want: "while offset 1 was out"},
		{name: "the wrong one acknowledged", events: []event{{get, 1, 1}, {ack, 1, 1}, {get, 4, 2}, {get, 6, 3}}, want: "while offset 4 was out"},
		{name: "back", events: []event{{get, 4, 1}, {ack, 4, 1}, {get, 1, 2}}, want: "offset 1 was delivered after offset 4"},
		{name: "came back", events: []event{{get, 1, 1}, {ack, 1, 1}, {get, 1, 2}}, want: "after it had been acknowledged"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f found
			o := newOrder(orderedGroup, f.broke)
			for _, e := range c.events {
				d := &client.Delivery{Key: []byte("k"), Offset: e.offset}
				if e.get {
					o.file(d, e.fence, c.free)
				} else {
					o.settling(d)
					o.ack(d, e.fence)
				}
			}
			o.finish()
			f.want(t, c.want)
		})
	}
}

// TestOrderJudgeMisses: what is in a journal and was never delivered is found.
func TestOrderJudgeMisses(t *testing.T) {
	var f found
	o := newOrder(orderedGroup, f.broke)
	o.file(&client.Delivery{Offset: 3}, 1, false)
	o.compare([]place{{0, 3}})
	f.want(t, "")
	o.compare([]place{{0, 3}, {0, 4}})
	f.want(t, "0/4 was never delivered")
}

// TestTimedJudge: what must not happen to messages with times is found, and nothing else is.
func TestTimedJudge(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	due := start.Add(time.Second)
	name := mq.MessageID{Scheduled: true, Number: 5}.String()
	waits := client.Result{Published: api.Published{ID: name, DeliverAt: due}}
	for _, c := range []struct {
		name, want string
		ttl        time.Duration
		do         func(s *timed, get func(stamp, handed time.Time, offset uint64))
	}{
		{name: "in time", do: func(s *timed, get func(time.Time, time.Time, uint64)) { get(due, due, 7); s.journaled(1, place{1, 7}) }},
		{name: "expired", ttl: time.Second, do: func(s *timed, _ func(time.Time, time.Time, uint64)) { s.journaled(1, place{1, 7}) }},
		{name: "cancelled", do: func(s *timed, _ func(time.Time, time.Time, uint64)) { s.cancelling(1); s.cancelAnswered(1, nil) }},
		{name: "sooner", do: func(s *timed, get func(time.Time, time.Time, uint64)) {
			s.moving(1, start)
			s.moved(1, 1, start, start)
			get(start, start, 7)
			s.journaled(1, place{1, 7})
		}},
		{name: "early", want: "was due at", do: func(_ *timed, get func(time.Time, time.Time, uint64)) { get(due.Add(-1), due, 7) }},
		{name: "early by no more than clocks differ", do: func(s *timed, get func(time.Time, time.Time, uint64)) {
			s.clocksOff()
			get(due.Add(-clocksDiffer), due, 7)
			s.journaled(1, place{1, 7})
		}},
		{name: "early by more than clocks differ", want: "was due at", do: func(s *timed, get func(time.Time, time.Time, uint64)) {
			s.clocksOff()
			get(due.Add(-clocksDiffer-1), due, 7)
		}},
		{name: "early after a move", want: "released at", do: func(s *timed, get func(time.Time, time.Time, uint64)) {
			s.moving(1, due.Add(time.Hour))
			s.moved(1, 1, due, due.Add(time.Hour))
			get(due, due, 7)
		}},
		{name: "twice", want: "is at {1 7} and at {1 8}", do: func(_ *timed, get func(time.Time, time.Time, uint64)) { get(due, due, 7); get(due, due, 8) }},
		{name: "cancelled and came", want: "was cancelled, and came", do: func(s *timed, get func(time.Time, time.Time, uint64)) {
			s.cancelling(1)
			s.cancelAnswered(1, nil)
			get(due, due, 7)
		}},
		{name: "lost", want: "is nowhere", do: func(*timed, func(time.Time, time.Time, uint64)) {}},
		{name: "not delivered", want: "never delivered", do: func(s *timed, _ func(time.Time, time.Time, uint64)) { s.journaled(1, place{1, 7}) }},
		{name: "too late", ttl: time.Second, want: "with a TTL", do: func(_ *timed, get func(time.Time, time.Time, uint64)) { get(due, due.Add(time.Second+1), 7) }},
		{name: "came back", want: "after it had been acknowledged", do: func(s *timed, get func(time.Time, time.Time, uint64)) {
			get(due, due, 7)
			s.ack(&client.Delivery{Value: s.value(1)}, 2)
			s.back(&client.Delivery{Value: s.value(1)}, 3)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f found
			s := &timed{run: 9, broke: f.broke}
			s.next(due, c.ttl)
			s.answered(1, waits)
			c.do(s, func(stamp, handed time.Time, offset uint64) {
				s.file(&client.Delivery{Value: s.value(1), Partition: 1, Offset: offset, Timestamp: stamp, LeaseExpiresAt: handed.Add(lease)})
			})
			s.finish()
			f.want(t, c.want)
		})
	}
}

// TestRejectedJudge: what was rejected may come back after a redrive was begun, and not before. A delivery that was handed out before
// the rejected one, and whose answer was longer on its way, did not come back; what comes after it is judged as ever.
func TestRejectedJudge(t *testing.T) {
	const redrive = 0 // in place of a delivery's fence
	for _, c := range []struct {
		name, want string
		then       []uint64 // fences of deliveries, after the one with fence 5 was rejected
	}{
		{name: "back after a redrive", then: []uint64{redrive, 6}},
		{name: "back without one", then: []uint64{6}, want: "not redriven"},
		{name: "long on its way", then: []uint64{4}},
		{name: "long on its way, and back without a redrive", then: []uint64{4, 6}, want: "not redriven"},
		{name: "long on its way, and back after a redrive", then: []uint64{4, redrive, 6}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f found
			s := newRejected(f.broke)
			d := &client.Delivery{Offset: 3}
			s.file(d, 5)
			s.reject(delivered{d, 5}, s.began())
			for _, fence := range c.then {
				if fence == redrive {
					s.begin()
				} else {
					s.file(d, fence)
				}
			}
			f.want(t, c.want)
		})
	}
}
