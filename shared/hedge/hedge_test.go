package hedge

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var errNo = errors.New("no")

// script is whom First asks: what each does, and when it was asked.
type script struct {
	mu    sync.Mutex
	asked []time.Duration
	ended int // calls that were told to end
}

func (s *script) run(t *testing.T, ctx context.Context, does ...func(ctx context.Context) (string, error)) (string, error) {
	t.Helper()
	start := time.Now()
	r, err := First(ctx, time.Second, len(does), func(ctx context.Context, try int) (string, error) {
		s.mu.Lock()
		s.asked = append(s.asked, time.Since(start))
		s.mu.Unlock()
		r, err := does[try](ctx)
		if ctx.Err() != nil {
			s.mu.Lock()
			s.ended++
			s.mu.Unlock()
		}
		return r, err
	})
	return r, err
}

func silent(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func says(r string, err error, after time.Duration) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		select {
		case <-time.After(after):
			return r, err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func TestFirst(t *testing.T) {
	for name, x := range map[string]struct {
		does  []func(context.Context) (string, error)
		want  string
		err   error
		asked []time.Duration
		ended int
	}{
		"one that answers is all that is asked": {does: []func(context.Context) (string, error){says("a", nil, 0), silent}, want: "a", asked: []time.Duration{0}},
		"a silent one is left after a second": {does: []func(context.Context) (string, error){silent, says("b", nil, 0)}, want: "b",
			asked: []time.Duration{0, time.Second}, ended: 1},
		"a slow one may still be the first": {does: []func(context.Context) (string, error){says("a", nil, 1500*time.Millisecond), silent}, want: "a",
			asked: []time.Duration{0, time.Second}, ended: 1},
		"a failure is left at once": {does: []func(context.Context) (string, error){says("", errNo, 0), says("b", nil, 0)}, want: "b",
			asked: []time.Duration{0, 0}},
		"all fail": {does: []func(context.Context) (string, error){says("", errNo, 0), says("", errNo, 0)}, err: errNo, asked: []time.Duration{0, 0}},
		"all but one are silent": {does: []func(context.Context) (string, error){silent, silent, says("c", nil, 0)}, want: "c",
			asked: []time.Duration{0, time.Second, 2 * time.Second}, ended: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s script
				r, err := s.run(t, t.Context(), x.does...)
				if r != x.want || !errors.Is(err, x.err) || !slices.Equal(s.asked, x.asked) || s.ended != x.ended {
					t.Fatalf("%q, %v; asked at %v, %d ended; want %q, %v, %v, %d", r, err, s.asked, s.ended, x.want, x.err, x.asked, x.ended)
				}
			})
		})
	}
}

func TestFirstEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		var s script
		if _, err := s.run(t, ctx, silent, silent); !errors.Is(err, context.DeadlineExceeded) || s.ended != 2 {
			t.Fatalf("%v, %d ended", err, s.ended)
		}
	})
	if _, err := First(t.Context(), time.Second, 0, func(context.Context, int) (int, error) { return 0, nil }); err == nil {
		t.Fatal("an answer from nobody")
	}
}
