package meta

import (
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
)

// An operator's word ends after its time by etcd's count of it, not by anybody's clock: whoever says when it was given may be hours off.
func TestForceEndsByItsLease(t *testing.T) {
	s, ctx := testStore(t)
	p := mq.PartitionID{Topic: 1}
	for _, at := range []time.Time{time.Now().Add(-5 * time.Hour), time.Now().Add(5 * time.Hour)} {
		if err := s.SetForce(ctx, p, Force{Segment: 3, By: "me", At: at}); err != nil {
			t.Fatal(err)
		}
		f, err := s.GetForce(ctx, p)
		if err != nil || !f.Stands(3) || f.Stands(4) || f.Stands(0) {
			t.Errorf("%+v, %v", f, err)
		}
		have, err := s.c.Get(ctx, forceKey(p))
		if err != nil {
			t.Fatal(err)
		}
		lease, err := s.c.TimeToLive(ctx, clientv3.LeaseID(have.Kvs[0].Lease))
		if err != nil || lease.GrantedTTL != int64(ForceFor/time.Second) {
			t.Errorf("lease %+v, %v", lease, err)
		}
	}
	if err := s.ForgetForce(ctx, p); err != nil {
		t.Fatal(err)
	}
	if f, err := s.GetForce(ctx, p); err != nil || f.Stands(3) || f.Stands(0) {
		t.Errorf("%+v, %v", f, err)
	}
}
