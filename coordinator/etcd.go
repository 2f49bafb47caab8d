package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"

	"github.com/splashdam/splashdam/shared/meta"
)

// etcd is this coordinator's member, in this process.
type etcd struct {
	server *embed.Etcd
	client *clientv3.Client // in process, without a socket
	log    *bridge

	mu   sync.Mutex
	grpc []*grpc.Server // the member's own, as it made them
}

// quota bounds etcd's database; metadata of 10,000 partitions is some tens of MB.
const quota = 2 << 30

// listenURL is what etcd is told; host names are resolved for listening, because etcd takes only IPs there.
func listenURL(addr string) (url.URL, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return url.URL{}, err
	}
	if net.ParseIP(host) == nil && host != "localhost" {
		host = "0.0.0.0" // the configuration was checked: only with Insecure
	}
	return url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}, nil
}

func etcdConfig(c *Config, log *bridge) (*embed.Config, error) {
	e := embed.NewConfig()
	e.Name, e.Dir = c.Name, filepath.Join(c.Dir, "etcd")
	peer, err := listenURL(c.EtcdPeer)
	if err != nil {
		return nil, err
	}
	client, err := listenURL(c.EtcdClient)
	if err != nil {
		return nil, err
	}
	e.ListenPeerUrls, e.ListenClientUrls = []url.URL{peer}, []url.URL{client}
	e.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: c.EtcdPeer}}
	e.AdvertiseClientUrls = []url.URL{{Scheme: "http", Host: c.EtcdClient}}
	members := []string{c.Name + "=http://" + c.EtcdPeer}
	if len(c.Peers) > 0 {
		members = nil
		for _, p := range c.Peers {
			members = append(members, p.Name+"=http://"+p.EtcdPeer)
		}
	}
	e.InitialCluster = strings.Join(members, ",")
	e.InitialClusterToken = "splashdam"
	// "new" also where the data directory has a member already: etcd then goes by its data.
	e.ClusterState = embed.ClusterStateFlagNew
	e.TickMs, e.ElectionMs = 100, 1000
	e.AutoCompactionMode, e.AutoCompactionRetention = "periodic", "1h"
	e.QuotaBackendBytes = quota
	e.EnableGRPCGateway = false
	e.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.InitialWindowSize(meta.StreamWindow), grpc.InitialConnWindowSize(meta.ConnWindow)}
	e.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(log))
	return e, nil
}

// startEtcd starts the member and returns when it serves linearizable reads, or ctx ends: with peers that is when
// a majority is there.
func startEtcd(ctx context.Context, c *Config, log *slog.Logger) (*etcd, error) {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	b := &bridge{log: log.With("part", "etcd"), dir: c.Dir, stopping: new(atomic.Bool)}
	cfg, err := etcdConfig(c, b)
	if err != nil {
		return nil, fmt.Errorf("coordinator: etcd's addresses: %w", err)
	}
	e := &etcd{log: b}
	cfg.ServiceRegister = func(s *grpc.Server) {
		e.mu.Lock()
		e.grpc = append(e.grpc, s)
		e.mu.Unlock()
	}
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("coordinator: starting etcd in %s: %w", cfg.Dir, err)
	}
	e.server = server
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		e.stop()
		return nil, fmt.Errorf("coordinator: etcd: %w", err)
	case <-ctx.Done():
		e.stop()
		return nil, fmt.Errorf("coordinator: waiting for a majority of etcd's members: %w", ctx.Err())
	}
	e.client = v3client.New(server.Server)
	return e, nil
}

// stop ends the member in about a second. HardStop first: a graceful stop hands leadership over for several
// seconds, and an election is quicker. Close would wait 7 s for watches that never end; ending the gRPC
// servers ends them.
func (e *etcd) stop() {
	e.log.stopping.Store(true)
	if e.client != nil {
		e.client.Close() // in process: it has no connection that could fail to close
	}
	e.server.Server.HardStop()
	e.mu.Lock()
	servers := e.grpc
	e.mu.Unlock()
	for _, s := range servers {
		s.Stop()
	}
	e.server.Close()
}

// bridge passes etcd's log on to slog: its information as debug, because it says more than anyone reads.
type bridge struct {
	log      *slog.Logger
	dir      string // etcd's data, for who must make room there
	fields   []zapcore.Field
	stopping *atomic.Bool // from then on its complaints about closed listeners are expected
}

func (b *bridge) level(l zapcore.Level) slog.Level {
	switch {
	case b.stopping.Load():
		return slog.LevelDebug
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l >= zapcore.WarnLevel:
		return slog.LevelInfo // slow disks and peers that are away: known otherwise
	default:
		return slog.LevelDebug
	}
}

// Enabled implements zapcore.Core.
func (b *bridge) Enabled(l zapcore.Level) bool {
	return b.log.Enabled(context.Background(), b.level(l))
}

// With implements zapcore.Core.
func (b *bridge) With(f []zapcore.Field) zapcore.Core {
	return &bridge{b.log, b.dir, append(b.fields[:len(b.fields):len(b.fields)], f...), b.stopping}
}

// Check implements zapcore.Core.
func (b *bridge) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if b.Enabled(e.Level) {
		return c.AddCore(e, b)
	}
	return c
}

// Write implements zapcore.Core.
func (b *bridge) Write(e zapcore.Entry, fields []zapcore.Field) error {
	m := zapcore.NewMapObjectEncoder()
	for _, f := range append(b.fields[:len(b.fields):len(b.fields)], fields...) {
		f.AddTo(m)
	}
	attrs := make([]slog.Attr, 0, len(m.Fields))
	for k, v := range m.Fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	l := b.level(e.Level)
	if e.Message == "failed to update storage version" {
		l = slog.LevelDebug // said by every member of a new cluster before its first snapshot; it tries again by itself
	}
	b.log.LogAttrs(context.Background(), l, e.Message, attrs...)
	if e.Level >= zapcore.PanicLevel { // zap ends the process when this returns
		b.log.Error("etcd can't go on, and ends this process; nothing that it acknowledged is lost. If its disk is full make room, then start again",
			"dir", b.dir)
	}
	return nil
}

// Sync implements zapcore.Core.
func (b *bridge) Sync() error { return nil }
