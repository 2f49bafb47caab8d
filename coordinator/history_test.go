package coordinator

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Values that are written over and over are forgotten as they pile up, and what is there stays.
func TestEtcdForgetsWhatWasOverwritten(t *testing.T) {
	t.Parallel()
	cfg := configs(t, 1)[0]
	e, err := startEtcd(t.Context(), &cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop()
	h := &history{most: 1 << 20}
	if err := e.forget(t.Context(), h, 2); err != nil {
		t.Fatal(err)
	}
	first := int64(0)
	for i := range 40 {
		r, err := e.client.Put(t.Context(), "/settings", fmt.Sprint(i, strings.Repeat("x", 64<<10)))
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = r.Header.Revision
		}
		e.server.Server.Backend().ForceCommit() // so that its size is the newest
		if err := e.forget(t.Context(), h, 2); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.client.Get(t.Context(), "/settings", clientv3.WithRev(first)); !errors.Is(err, rpctypes.ErrCompacted) {
		t.Errorf("the first value is still kept: %v", err)
	}
	r, err := e.client.Get(t.Context(), "/settings")
	if err != nil || len(r.Kvs) != 1 || !strings.HasPrefix(string(r.Kvs[0].Value), "39x") {
		t.Errorf("the newest value: %v %v", r, err)
	}
	if _, err := e.client.Get(t.Context(), "/settings", clientv3.WithRev(r.Header.Revision-1)); err != nil {
		t.Errorf("the one before: %v", err)
	}
}

func TestHistoryIsDueByWhatCame(t *testing.T) {
	h := history{most: 100}
	for i, c := range []struct {
		inUse int64
		due   bool
	}{{1000, false}, {1099, false}, {1100, true}, {1150, false}, {1020, false}, {1119, false}, {1120, true}, {1219, false}, {1220, true}} {
		if got := h.due(c.inUse); got != c.due {
			t.Errorf("look %d, with %d in use: %v", i, c.inUse, got)
		}
	}
}
