package load

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func short(url string) Options {
	return Options{Server: []string{url}, Partitions: 1, Connections: 2, Size: 60, Duration: time.Second, Timeout: 10 * time.Second}
}

func TestModesAgainstABroker(t *testing.T) {
	type mode interface {
		Run(context.Context) (*Report, error)
	}
	for name, make := range map[string]func(o Options) mode{
		"single":    func(o Options) mode { return &Publish{Options: o, Batch: 1, Keys: 3} },
		"batch":     func(o Options) mode { return &Publish{Options: o, Batch: 10, Keys: 3} },
		"open loop": func(o Options) mode { return &Publish{Options: o, Batch: 2, Rate: 1000} },
		"ndjson":    func(o Options) mode { return &NDJSON{Options: o, Window: 16} },
		"streams":   func(o Options) mode { return &Streams{Options: o, Kind: "longpoll", Group: "g", Rate: 500, Credit: 10} },
		"longpolls": func(o Options) mode { return &LongPolls{Options: o, Group: "g", Wait: 10 * time.Millisecond} },
	} {
		t.Run(name, func(t *testing.T) {
			_, url := newBroker(t)
			m := make(short(url))
			r, err := m.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if r.Requests == 0 || len(r.Failed) > 0 {
				t.Errorf("%d requests, failed %v", r.Requests, r.Failed)
			}
		})
	}
}

func TestConsumeEndsWithTheBacklog(t *testing.T) {
	_, url := newBroker(t)
	o := short(url)
	o.Duration = time.Hour // it ends before, when all is consumed
	r, err := (&Consume{Options: o, Group: "g", Max: 100, Wait: "1s", Prefill: 2500}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Messages != 2500 || len(r.Failed) > 0 {
		t.Errorf("%d messages, failed %v; want 2500", r.Messages, r.Failed)
	}
}

func TestWakeMeasuresEachRound(t *testing.T) {
	_, url := newBroker(t)
	r, err := (&Wake{Options: short(url), Group: "g", Idle: time.Millisecond}).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Messages == 0 || len(r.Failed) > 0 {
		t.Errorf("%d messages, failed %v", r.Messages, r.Failed)
	}
}

func e2e(url string) *E2E {
	return &E2E{Options: short(url), Group: "g", Rate: 2000, Batch: 5, Consumers: 1, Max: 50, Lease: 10 * time.Second,
		Keys: 10, Drain: time.Minute, MaxMessages: 10_000}
}

func TestE2EOfAnHonestBroker(t *testing.T) {
	b, url := newBroker(t)
	b.refuse = func(n int) int { return map[int]int{3: 503, 5: 504}[n] } // neither stores anything
	run := e2e(url)
	run.NackEvery = 7
	r, err := run.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := r.Check
	if c.Violations() > 0 || r.Incomplete {
		t.Errorf("violations in %+v", c)
	}
	if c.Stored == 0 || c.Acked != c.Stored || c.Redelivered == 0 {
		t.Errorf("stored %d, acked %d, redelivered %d", c.Stored, c.Acked, c.Redelivered)
	}
	if c.Unknown != 5 || c.Refused < 5 || r.Failed["no_leader"] != 1 || r.Failed["outcome_unknown"] != 1 {
		t.Errorf("unknown %d, refused %d, failed %v", c.Unknown, c.Refused, r.Failed)
	}
}

func TestE2EFindsALoss(t *testing.T) {
	b, url := newBroker(t)
	b.lose = func(offset int) bool { return offset == 17 }
	run := e2e(url)
	run.Drain = 3 * time.Second // waited for in vain: the others must be there by then
	r, err := run.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Check.Lost != 1 || !r.Incomplete {
		t.Errorf("lost %d, incomplete %v; want 1, true", r.Check.Lost, r.Incomplete)
	}
}

func TestE2EFindsWhatCameBack(t *testing.T) {
	b, url := newBroker(t)
	b.bringBack = func(settle int) bool { return settle == 1 }
	r, err := e2e(url).Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Check.CameBack == 0 {
		t.Errorf("nothing came back in %+v", r.Check)
	}
}

func TestE2ERefusesWhatCannotWork(t *testing.T) {
	for name, change := range map[string]func(*E2E){
		"batch": func(e *E2E) { e.Batch = 0 },
		"keys":  func(e *E2E) { e.Keys = 1 }, // fewer than connections
		"size":  func(e *E2E) { e.Size = 10 },
		"bound": func(e *E2E) { e.MaxMessages = 0 },
	} {
		run := e2e("http://127.0.0.1:1")
		change(run)
		if _, err := run.Run(t.Context()); err == nil || strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A server that stalls for a second must be charged for every request that was due meanwhile.
func TestPaceOmitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		p := newPace(20, 2, 1, start) // 10 a second for this one of two, so every 100 ms, 50 ms later than the other
		for i := range 20 {
			due := p.next(t.Context())
			if want := 50*time.Millisecond + time.Duration(i)*100*time.Millisecond; due.Sub(start) != want {
				t.Errorf("request %d was due at %s, want %s", i, due.Sub(start), want)
			}
			if i == 3 {
				time.Sleep(time.Second) // the stall, on synctest's clock
			}
			late := time.Since(due)
			if stalled := i > 3 && i < 13; stalled != (late > 0 && i != 3) {
				t.Errorf("request %d is sent %s late", i, late)
			}
		}
	})
}

func TestParseStat(t *testing.T) {
	got, err := parseStat("42 (a) b (c) S 1 42 42 0 -1 4194560 900 0 0 0 77 23 0 0 20 0 9 0 100 1 1")
	if err != nil || got != 100 {
		t.Errorf("got %d, %v; want 77 + 23", got, err)
	}
	for _, bad := range []string{"", "1 (x) S 1", "1 (x) S 1 2 3 4 5 6 7 8 9 10 x 1"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
