package meta

import (
	"context"
	"fmt"

	"github.com/splashdam/splashdam/shared/mq"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const prefixBoots = "/boots/"

// boot is the record under /boots/<store id>: the highest boot number that a store has shown. Without a lease,
// so that a directory put back from an old copy is noticed for ever.
type boot struct {
	Boot uint64 `json:"boot"`
}

// RaiseBoot records the boot number of a store's run, which was raised on its disk before. An error that is
// not MetadataUnavailable says that etcd has seen a boot as high already: the directory is an old copy, and
// the node must not start.
func (s *Store) RaiseBoot(ctx context.Context, i mq.Incarnation) error {
	key := prefixBoots + string(i.Store)
	text, err := encode(boot{i.Boot})
	if err != nil {
		return err
	}
	for range maxSwaps {
		var was boot
		revision, err := s.get(ctx, key, &was)
		if err != nil {
			return err
		}
		if was.Boot >= i.Boot {
			return fmt.Errorf("store %.8s starts with boot %d, but boot %d was seen before: its directory is an old copy", i.Store, i.Boot, was.Boot)
		}
		ok, _, err := s.commit(ctx, "raising the boot number", []clientv3.Cmp{unchanged(key, revision)}, clientv3.OpPut(key, text))
		if err != nil {
			return err // the next start raises the number again, so an unknown outcome does no harm
		}
		if ok {
			return nil
		}
	}
	return fmt.Errorf("the boot number of store %.8s changes all the time: is its directory used twice?", i.Store)
}
