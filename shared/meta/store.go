// Package meta is everything that the cluster keeps in etcd: each key, typed, with the transactions that
// change it (Store), an in-memory copy kept by watches (View), leased registrations (Register) and the
// controller's election (Lead).
//
// Every change is a compare-and-swap on a key's ModRevision. When the outcome of a transaction is unknown
// the key is read again; a transaction is never sent twice blindly (museum 16).
package meta

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// callTimeout bounds each call to etcd with all its tries; a caller's earlier deadline holds.
const callTimeout = 5 * time.Second

// maxSwaps bounds the compare-and-swap loops: under contention that lasts, the caller gets an error.
const maxSwaps = 16

// Windows of the connections to etcd, in bytes: what a stream and what a connection may send ahead. They are fixed, because gRPC
// measures the way for windows that grow, with a ping at nearly every message of such quiet connections.
const (
	StreamWindow = 4 << 20
	ConnWindow   = 16 << 20
)

// Store reads and writes the cluster's keys. Safe for use by many goroutines.
//
// Errors carry a code of mqerr: MetadataUnavailable when etcd can't be reached or does not answer (the
// outcome of a write is then unknown, unless the method says otherwise), TopicNotFound, GroupNotFound, PartitionNotFound,
// AlreadyExists, PreconditionFailed.
type Store struct {
	c    *clientv3.Client
	owns bool // the client was made by Connect, so Close closes it
	log  *slog.Logger

	looked looked
}

// Connect makes a store that talks to the etcd members at endpoints (host:port). It does not wait for
// them to answer: the first call does.
func Connect(ctx context.Context, endpoints []string, log *slog.Logger, options ...grpc.DialOption) (*Store, error) {
	if len(endpoints) == 0 {
		return nil, fmt.Errorf("meta: no etcd endpoints are given")
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: endpoints,
		// Not ctx itself: it would end the client's watches with the start-up's deadline.
		Context:              context.WithoutCancel(ctx),
		DialTimeout:          0, // do not block
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		DialOptions: append([]grpc.DialOption{grpc.WithInitialWindowSize(StreamWindow), grpc.WithInitialConnWindowSize(ConnWindow)},
			options...),
		Logger: zap.NewNop(), // every failure comes back as an error
	})
	if err != nil {
		return nil, fmt.Errorf("meta: etcd client for %v: %w", endpoints, err)
	}
	return &Store{c: c, owns: true, log: log}, nil
}

// New makes a store over a client that somebody else closes (the coordinator's in-process one).
func New(c *clientv3.Client, log *slog.Logger) *Store { return &Store{c: c, log: log} }

// Close closes the connections if Connect made them. Views and registrations must have ended before.
func (s *Store) Close() error {
	if !s.owns {
		return nil
	}
	return s.c.Close()
}

// get reads one key linearizably into v; revision 0 says that there is no such key.
func (s *Store) get(ctx context.Context, key string, v any) (revision int64, err error) {
	r, err := s.read(ctx, "reading "+keyName(key), key)
	if err != nil {
		return 0, err
	}
	if len(r.Kvs) == 0 {
		return 0, nil
	}
	if err := decode(r.Kvs[0], v); err != nil {
		return 0, err
	}
	return r.Kvs[0].ModRevision, nil
}

func decode(kv *mvccpb.KeyValue, v any) error {
	if err := json.Unmarshal(kv.Value, v); err != nil {
		return mqerr.New(mqerr.Internal, "the value of %s in etcd can't be read: %w", kv.Key, err)
	}
	return nil
}

func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("meta: %T as JSON: %w", v, err)
	}
	return string(b), nil
}

// commit runs one transaction and says whether its comparisons held, and at which revision.
func (s *Store) commit(ctx context.Context, doing string, cmps []clientv3.Cmp, ops ...clientv3.Op) (ok bool, revision int64, err error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := s.c.Txn(ctx).If(cmps...).Then(ops...).Commit()
	if err != nil {
		return false, 0, s.failed(doing, began, err)
	}
	return r.Succeeded, r.Header.Revision, nil
}

// unchanged compares that a key still is at a revision; 0 is "there is no such key".
func unchanged(key string, revision int64) clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(key), "=", revision)
}

// Alive makes sure that etcd answers linearizable reads.
func (s *Store) Alive(ctx context.Context) error {
	var ignored json.RawMessage
	_, err := s.get(ctx, keyCluster, &ignored)
	return err
}
