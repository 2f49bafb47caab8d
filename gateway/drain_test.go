package gateway

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/frame"
)

// A gateway that stops ends the reads that wait: a long poll answers with nothing, streams end whole.
func TestStopEndsReadsThatWait(t *testing.T) {
	t.Parallel()
	h := startHarness(t)
	h.topic("quiet", `{"partitions":1}`)
	waiting := make(chan struct{})
	var reads atomic.Int32
	h.node.set(func() {
		h.node.onRead = func(*frame.Read) {
			if reads.Add(1) == 6 { // each asks at first, and once more when it has begun to follow the end
				close(waiting)
			}
		}
	})
	done := make(chan answer, 3)
	for _, accept := range []string{"application/json", "application/x-ndjson", "text/event-stream"} {
		go func() {
			a, err := h.try("GET", "/v1/topics/quiet/messages?wait=30s", "", "Accept", accept)
			if err != nil {
				t.Errorf("%s: %v", accept, err)
			}
			done <- a
		}()
	}
	<-waiting
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := h.g.Stop(ctx); err != nil {
		t.Error(err)
	}
	for range 3 {
		if a := <-done; a.status != 200 {
			t.Errorf("%d %s", a.status, a.body)
		}
	}
}
