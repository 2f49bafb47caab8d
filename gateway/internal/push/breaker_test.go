package push

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBreakerOpensProbesAndCloses(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	var b breaker
	b.configure(3, 10*time.Second, 35*time.Second)
	step := func(v verdict, probe bool) bool { return b.result(now, v, probe, 0.5) }
	step(unwell, false)
	step(unwell, false)
	step(wellOff, false) // not in a row
	step(unwell, false)
	step(unwell, false)
	if !b.closed() {
		t.Fatal("open after two failures in a row")
	}
	if !step(unwell, false) || b.closed() {
		t.Fatal("closed after three failures in a row")
	}
	// Twice as long each time, up to the most.
	for i, wait := range []time.Duration{10, 20, 35, 35} {
		wait *= time.Second
		if got := b.until.Sub(now); got != wait {
			t.Fatalf("opening %d is for %s, want %s", i, got, wait)
		}
		if step(unwell, false) || b.until.Sub(now) != wait {
			t.Fatal("what was under way changed how long it is open")
		}
		if now = now.Add(wait - time.Nanosecond); b.probe(now) {
			t.Fatal("a probe before its time")
		}
		if now = now.Add(time.Nanosecond); !b.probe(now) {
			t.Fatal("no probe when its time has come")
		}
		b.begin()
		if b.probe(now) {
			t.Fatal("two probes at once")
		}
		step(unwell, true)
	}
	now = now.Add(35 * time.Second)
	b.begin()
	b.abandon()
	if !b.probe(now) {
		t.Fatal("an abandoned probe keeps others away")
	}
	b.begin()
	if step(wellOff, true); !b.closed() || b.opened != 0 {
		t.Fatal("open after a probe that worked")
	}
	for range 3 {
		step(unwell, false)
	}
	if got := b.until.Sub(now); got != 10*time.Second {
		t.Fatalf("the next opening is for %s", got)
	}
}

// Whatever happens, an open breaker lets a probe through in the end, and the wait stays in its bounds.
func TestBreakerNeverSticks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_790_000_000, 0)
		var b breaker
		limit := rapid.IntRange(0, 4).Draw(t, "failures")
		b.configure(limit, time.Second, time.Minute)
		probing := false
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(t, "passes")))
			if b.probe(now) {
				if probing || b.closed() {
					t.Fatal("a probe of a closed breaker, or a second one")
				}
				b.begin()
				probing = true
			}
			v := rapid.SampledFrom([]verdict{wellOff, unwell, unwell}).Draw(t, "verdict")
			probe := probing && rapid.Bool().Draw(t, "of the probe")
			chance := rapid.Float64Range(0, 1).Draw(t, "chance")
			opened := b.result(now, v, probe, chance)
			if probe {
				probing = false
			}
			if wait := b.until.Sub(now); opened && (wait < 800*time.Millisecond || wait > 72*time.Second) {
				t.Fatalf("open for %s", wait)
			}
			if limit == 0 && !b.closed() || v == wellOff && !b.closed() {
				t.Fatal("open without a reason")
			}
		}
		if probing {
			b.abandon()
		}
		if now = now.Add(72 * time.Second); !b.closed() && !b.probe(now) {
			t.Fatal("an open breaker lets nothing through")
		}
	})
}
