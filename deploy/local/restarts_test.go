package main

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/deploy/cluster"
)

// A node that can't start before a coordinator does, as both were killed, does not keep the coordinator from it; what fails
// or hangs is tried again.
func TestRestartsDoNotWaitForOneAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := restarts{log: slog.New(slog.DiscardHandler), most: time.Minute}
		coordinator := make(chan struct{})
		tries := map[string]int{}
		r.again(t.Context(), "node-1", func(ctx context.Context) error {
			select {
			case <-coordinator:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		r.again(t.Context(), "coordinator-1", func(ctx context.Context) error {
			switch tries["coordinator-1"]++; tries["coordinator-1"] {
			case 1:
				return errors.New("it ended at once")
			case 2:
				<-ctx.Done()
				return ctx.Err()
			}
			close(coordinator)
			return nil
		})
		r.wait()
		if tries["coordinator-1"] != 3 {
			t.Errorf("%d tries, want 3", tries["coordinator-1"])
		}
	})
}

func TestRestartsEndWithTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := restarts{log: slog.New(slog.DiscardHandler), most: time.Minute}
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 { // the second waits for the first
			r.again(ctx, "node-1", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}
		time.AfterFunc(time.Second+startAgain, cancel)
		r.wait()
	})
}

func TestEndedNote(t *testing.T) {
	got := endedNote(&cluster.Ended{Name: "coordinator-1", Err: errors.New("signal: killed, see ./data/coordinator-1.log")})
	if want := "coordinator-1 ended by itself; it starts again in 2s.\n  signal: killed, see ./data/coordinator-1.log"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
