package lognode

import (
	"testing"
	"time"
)

func TestBeatsOfAllStreamsComeTogether(t *testing.T) {
	for _, offset := range []time.Duration{0, 1, 99, 100, 101, 199} {
		now := time.Unix(1000, int64(offset*time.Millisecond))
		wait := untilBeat(now, heartbeat)
		if at := now.Add(wait); at.UnixNano()%int64(heartbeat) != 0 {
			t.Errorf("%d ms after one: the next is at %v", offset, at)
		}
		if wait < heartbeat/2 || wait > heartbeat*3/2 {
			t.Errorf("%d ms after one: waits for %v", offset, wait)
		}
	}
}
