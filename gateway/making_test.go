package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// What is being made outlives who asked first, ends with the gateway, and is waited for by its stop.
func TestMakingEndsWithTheGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Gateway{cfg: Config{RequestTimeout: time.Minute}}
		g.life, g.cancel = context.WithCancel(t.Context())
		ended := false
		asking, leave := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := shared(asking, g, "x", func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(time.Second) // it does not end at once
				ended = true
				return 0, ctx.Err()
			})
			first <- err
		}()
		synctest.Wait()
		leave()
		if err := <-first; err != context.Canceled || ended {
			t.Errorf("who left got %v, ended %t", err, ended)
		}
		g.cancel()
		g.making.end()
		if !ended {
			t.Error("the stop did not wait")
		}
		synctest.Wait()
		if _, err := shared(t.Context(), g, "y", func(context.Context) (int, error) { return 1, nil }); !mqerr.Is(err, mqerr.Draining) {
			t.Errorf("after the stop: %v", err)
		}
	})
}
