package meta

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mqerr"
)

// Kind names a counter of ids.
type Kind string

// The counters. Ids begin at 1 and are never given twice.
const (
	TopicIDs   Kind = "topics"
	GroupIDs   Kind = "groups"
	SegmentIDs Kind = "segments"
)

// NextID gives an id that nobody had before.
func (s *Store) NextID(ctx context.Context, kind Kind) (uint64, error) {
	return s.NextIDs(ctx, kind, 1)
}

// NextIDs gives n consecutive ids that nobody had before; the first one is returned. A try whose outcome is
// unknown may burn ids: whatever the counter says then is treated as somebody else's.
func (s *Store) NextIDs(ctx context.Context, kind Kind, n uint64) (first uint64, err error) {
	key := prefixIDs + string(kind)
	for range maxSwaps {
		var last uint64
		revision, err := s.get(ctx, key, &last)
		if err != nil {
			return 0, err
		}
		value, err := encode(last + n)
		if err != nil {
			return 0, err
		}
		ok, _, err := s.commit(ctx, "taking ids of "+string(kind), []clientv3.Cmp{unchanged(key, revision)}, clientv3.OpPut(key, value))
		if ok {
			return last + 1, nil
		}
		if err != nil && ctx.Err() != nil {
			return 0, err
		}
	}
	return 0, mqerr.New(mqerr.MetadataUnavailable, "taking ids of %s: no try in %d came through", kind, maxSwaps)
}

// EnsureCluster reads the cluster's record, and makes it if there is none (first controller only).
func (s *Store) EnsureCluster(ctx context.Context) (Cluster, error) {
	return ensure(ctx, s, keyCluster, func() Cluster {
		return Cluster{ID: hex.EncodeToString(random(16)), Created: time.Now().UTC()}
	})
}

// ClusterID reads the cluster's id; it is "" until a controller has made it.
func (s *Store) ClusterID(ctx context.Context) (string, error) {
	var c Cluster
	_, err := s.get(ctx, keyCluster, &c)
	return c.ID, err
}

// EnsureReceiptSecret makes secret number 1 if there is none (controller only).
func (s *Store) EnsureReceiptSecret(ctx context.Context) error {
	_, err := ensure(ctx, s, receiptKey(1), func() secret {
		return secret{Number: 1, Secret: random(32), Created: time.Now().UTC()}
	})
	return err
}

// ensure reads a key that is written once, or writes it.
func ensure[T any](ctx context.Context, s *Store, key string, fresh func() T) (T, error) {
	var none T
	for range maxSwaps {
		var have T
		revision, err := s.get(ctx, key, &have)
		if err != nil {
			return none, err
		}
		if revision != 0 {
			return have, nil
		}
		want := fresh()
		value, err := encode(want)
		if err != nil {
			return none, err
		}
		ok, _, err := s.commit(ctx, "making "+key, []clientv3.Cmp{unchanged(key, 0)}, clientv3.OpPut(key, value))
		if ok {
			return want, nil
		}
		if err != nil && ctx.Err() != nil {
			return none, err
		}
	}
	return none, mqerr.New(mqerr.MetadataUnavailable, "making %s: no try in %d came through", key, maxSwaps)
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	return b
}
