package meta

import (
	"context"
	"log/slog"
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
)

// patience bounds every wait of these tests; it is no expectation of speed.
const patience = 3 * time.Minute

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// testEtcd starts a real member and gives an in-process client of it.
func testEtcd(t *testing.T) (*embed.Etcd, *clientv3.Client) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	any := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenPeerUrls, cfg.ListenClientUrls = []url.URL{any}, []url.URL{any}
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = []url.URL{any}, []url.URL{any}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	<-e.Server.ReadyNotify()
	c := v3client.New(e.Server)
	t.Cleanup(func() {
		c.Close()
		e.Server.HardStop()
		e.Close()
	})
	return e, c
}

func testStore(t *testing.T) (*Store, context.Context) {
	t.Helper()
	_, c := testEtcd(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return New(c, quiet()), ctx
}

// runView runs a view until the test ends and waits for its first list.
func runView(t *testing.T, ctx context.Context, v *View) {
	t.Helper()
	run, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.Run(run)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	select {
	case <-v.Ready():
	case <-ctx.Done():
		t.Fatal("the view was never ready")
	}
}
