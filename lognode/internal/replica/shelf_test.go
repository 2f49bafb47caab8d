package replica

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/archive"
)

// A bucket that fails is asked ever more seldom, up to once a minute, and at once after it took a segment.
func TestArchiveBacksOff(t *testing.T) {
	now := time.Unix(1000, 0)
	var h shelf
	for _, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		if h.failed(errors.New("down"), now); h.until.Sub(now) != want*time.Second || h.down == nil {
			t.Errorf("the next try is %s later, want %d s; down: %v", h.until.Sub(now), want, h.down)
		}
	}
	h.add(archive.Object{Segment: 3})
	if h.failed(errors.New("down again"), now); h.until.Sub(now) != time.Second {
		t.Errorf("after a success the first pause is %s", h.until.Sub(now))
	}
}

// An upload is ended when it lasts while publishes are refused, and not before.
func TestArchiveHurries(t *testing.T) {
	began := time.Unix(1000, 0)
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	h := shelf{stop: stop, since: began}
	if h.hurry(began.Add(archivePatience)); ctx.Err() != nil {
		t.Error("an upload was ended that may still last")
	}
	if h.hurry(began.Add(archivePatience + 1)); !errors.Is(context.Cause(ctx), errSlowArchive) {
		t.Errorf("an upload that lasts ended with %v", context.Cause(ctx))
	}
	(&shelf{}).hurry(began) // none runs
}
