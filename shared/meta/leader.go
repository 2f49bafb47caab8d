package meta

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/beat"
)

// Lead campaigns for the controller's lease under name and calls lead whenever it is won, with a context
// that ends when the lease can no longer be relied on. It returns when ctx ends. lead must return soon after
// its context ended; if it returns earlier the lease is given up and the campaign goes on.
//
// The lease decides who should act, not what is safe: every change that a controller makes is a
// compare-and-swap of its own, so two of them at once do no harm.
//
// A lease that an earlier run under the same name still holds is ended first: a coordinator's data directory is
// locked, so that run is over, and a restart of everything need not wait for its lease to run out.
func (s *Store) Lead(ctx context.Context, name string, ttl time.Duration, lead func(context.Context)) error {
	s.endEarlierRun(ctx, name)
	for ctx.Err() == nil {
		lease, renewed, err := s.campaign(ctx, name, ttl)
		if err != nil {
			if ctx.Err() == nil {
				s.log.Debug("campaigning for the controller's lease", "err", err)
			}
			wait(ctx, ttl/4)
			continue
		}
		s.log.Info("this coordinator leads", "name", name)
		s.reign(ctx, lease, renewed, ttl, lead)
		s.log.Info("this coordinator no longer leads", "name", name)
	}
	return ctx.Err()
}

// leaderRecord is the value of the controller's key.
type leaderRecord struct {
	Name string `json:"name"`
}

// endEarlierRun revokes the controller's lease if it is of an earlier run under this name. It is a courtesy: if
// it fails, the lease runs out by itself.
func (s *Store) endEarlierRun(ctx context.Context, name string) {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := s.c.Get(call, keyController)
	if err != nil || len(r.Kvs) == 0 {
		return
	}
	var holder leaderRecord
	if decode(r.Kvs[0], &holder) == nil && holder.Name == name {
		s.revoke(clientv3.LeaseID(r.Kvs[0].Lease))
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// campaign waits until nobody holds the lease and takes it; renewed is the moment from which it counts.
func (s *Store) campaign(ctx context.Context, name string, ttl time.Duration) (clientv3.LeaseID, time.Time, error) {
	value, err := encode(leaderRecord{name})
	if err != nil {
		return 0, time.Time{}, err
	}
	if err := s.Vacant(ctx); err != nil {
		return 0, time.Time{}, err
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	renewed := time.Now()
	g, err := s.c.Grant(call, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return 0, renewed, unavailable("taking a lease", err)
	}
	ok, _, err := s.commit(call, "taking the controller's lease", []clientv3.Cmp{unchanged(keyController, 0)},
		clientv3.OpPut(keyController, value, clientv3.WithLease(g.ID)))
	if err == nil && !ok {
		err = errors.New("meta: another coordinator was faster")
	}
	if err != nil {
		s.revoke(g.ID)
		return 0, renewed, err
	}
	return g.ID, renewed, nil
}

func (s *Store) revoke(id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := s.c.Revoke(ctx, id); err != nil {
		s.log.Debug("a lease was not revoked; it runs out by itself", "err", err)
	}
}

// Coordinators counts the coordinators that are registered at this moment, by a linearizable read.
func (s *Store) Coordinators(ctx context.Context) (int, error) {
	r, err := s.read(ctx, "counting coordinators", prefixCoordinators, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(r.Count), nil
}

// Vacant returns when nobody holds the controller's lease: what its holder began is finished then, for it gives the lease back
// last. An error says that ctx ended first, or that etcd does not answer.
func (s *Store) Vacant(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call, done := context.WithTimeout(ctx, callTimeout)
	defer done()
	r, err := s.c.Get(call, keyController)
	if err != nil {
		return unavailable("reading the controller's key", err)
	}
	if len(r.Kvs) == 0 {
		return nil
	}
	w := s.c.Watch(clientv3.WithRequireLeader(ctx), keyController, clientv3.WithRev(r.Header.Revision+1))
	// A lost event must not leave the cluster without a controller: look again now and then.
	again := time.NewTimer(10 * time.Second)
	defer again.Stop()
	for {
		select {
		case resp, ok := <-w:
			if !ok {
				return fmt.Errorf("meta: the watch of the controller's key ended")
			}
			if err := resp.Err(); err != nil {
				return unavailable("watching the controller's key", err)
			}
			for _, e := range resp.Events {
				if e.Type == mvccpb.Event_DELETE {
					return nil
				}
			}
		case <-again.C:
			return errors.New("meta: the controller's lease is held")
		}
	}
}

// reign runs lead while keepalives come through. The lease counts from before the last keepalive that
// succeeded was sent, so the context ends before etcd could give the lease to somebody else.
func (s *Store) reign(ctx context.Context, lease clientv3.LeaseID, renewed time.Time, ttl time.Duration, lead func(context.Context)) {
	led, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		lead(led)
	}()
	tick := beat.NewTicker(beat.Below(ttl / 4))
	defer tick.Stop()
loop:
	for {
		select {
		case <-led.Done():
			break loop
		case <-done:
			break loop
		case <-tick.C:
		}
		sent := time.Now()
		call, stop := context.WithDeadline(ctx, minTime(sent.Add(ttl/4), renewed.Add(ttl*9/10)))
		_, err := s.c.KeepAliveOnce(call, lease)
		stop()
		if err == nil {
			renewed = sent
		} else if errors.Is(err, rpctypes.ErrLeaseNotFound) || time.Since(renewed) > ttl*6/10 {
			s.log.Warn("the controller's lease is lost", "err", err)
			break loop
		}
	}
	cancel()
	<-done
	s.revoke(lease)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Controller reads who holds the controller's lease; "" for nobody.
func (s *Store) Controller(ctx context.Context) (string, error) {
	var v leaderRecord
	_, err := s.get(ctx, keyController, &v)
	return v.Name, err
}
