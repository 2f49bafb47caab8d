package lognode

import (
	"testing"
	"time"
)

func TestRefusalsFillNoLog(t *testing.T) {
	var r refusals
	at := time.Unix(1000, 0)
	for _, c := range []struct {
		after time.Duration
		n     int
		told  int
	}{{0, 0, 0}, {0, 3, 3}, {0, 10_000, 0}, {500 * time.Millisecond, 5, 0}, {499 * time.Millisecond, 0, 0}, {time.Millisecond, 1, 10_006}, {time.Hour, 0, 0}, {0, 2, 2}} {
		at = at.Add(c.after)
		if got := r.note(at, c.n); got != c.told {
			t.Errorf("%d at %v: %d are told of, want %d", c.n, at.Sub(time.Unix(1000, 0)), got, c.told)
		}
	}
}
