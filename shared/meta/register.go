package meta

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Registration keeps a leased key alive. A lease that is lost (late keepalives, etcd's trouble) is never
// used again: the key is written anew under a new lease (museum 7, 17).
type Registration struct {
	s    *Store
	key  string
	ttl  time.Duration
	gate func(context.Context) error
	log  *slog.Logger

	updates chan update
	lost    chan struct{}
	cancel  context.CancelFunc
	done    sync.WaitGroup

	// Owned by the goroutine of run once Register has returned.
	value    string
	lease    clientv3.LeaseID // 0: none, register first
	revision int64            // ModRevision of the last value that we wrote; 0: none yet
}

// putTries is how often an Update that is not answered is tried, each time for a quarter of the ttl.
const putTries = 4

type update struct {
	value string
	done  chan error
}

// Register writes value (as JSON) under a leased key and keeps it there until Close. It returns when the
// key is there, or ctx ends. ttl is rounded up to whole seconds.
//
// gate, if not nil, is called before each keepalive (three in a ttl) with a context of a third of the ttl,
// and must return when that ends: while it fails no keepalive is sent and the lease runs out, so a node whose disk
// stalls loses its registration though its process lives (museum 4). At first the gate is waited for; an error of it that is
// not context.DeadlineExceeded is Register's.
func (s *Store) Register(ctx context.Context, key string, value any, ttl time.Duration, gate func(context.Context) error) (*Registration, error) {
	text, err := encode(value)
	if err != nil {
		return nil, err
	}
	if gate == nil {
		gate = func(context.Context) error { return nil }
	}
	r := &Registration{
		s: s, key: key, ttl: max(time.Second, ttl), gate: gate, value: text, log: s.log.With("key", key),
		updates: make(chan update), lost: make(chan struct{}, 1),
	}
	if err := r.firstGated(ctx); err != nil {
		return nil, fmt.Errorf("registering %s: %w", key, err)
	}
	if err := r.enter(ctx); err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	r.done.Add(1)
	go func() {
		defer r.done.Done()
		r.run(run)
	}()
	return r, nil
}

// Update changes the value and returns when it is written. An error leaves the outcome unknown, but the
// new value is the one that later registrations write.
func (r *Registration) Update(ctx context.Context, value any) error {
	text, err := encode(value)
	if err != nil {
		return err
	}
	u := update{text, make(chan error, 1)}
	select {
	case r.updates <- u:
	case <-ctx.Done():
		return unavailable("updating "+r.key, ctx.Err())
	}
	select {
	case err := <-u.done:
		return err
	case <-ctx.Done():
		return unavailable("updating "+r.key, ctx.Err())
	}
}

// Lost is sent to (capacity 1) each time the lease was lost, before the key is registered anew.
func (r *Registration) Lost() <-chan struct{} { return r.lost }

// Close ends the registration, waits for its goroutine and revokes the lease (a second at most). No Update
// may run or follow.
func (r *Registration) Close() {
	r.cancel()
	r.done.Wait()
	r.leave()
}

func (r *Registration) leave() {
	if r.lease == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := r.s.c.Revoke(ctx, r.lease); err != nil {
		r.log.Debug("the lease was not revoked; it runs out by itself", "err", err)
	}
	r.lease = 0
}

func (r *Registration) run(ctx context.Context) {
	every := r.ttl / 3
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case u := <-r.updates:
			r.value = u.value
			u.done <- r.put(ctx)
		case <-tick.C:
			r.keep(ctx)
		}
	}
}

// keep sends one keepalive, or registers again if there is no lease.
func (r *Registration) keep(ctx context.Context) {
	if err := r.gated(ctx); err != nil {
		if ctx.Err() == nil {
			r.log.Warn("no keepalive is sent", "err", err)
		}
		return
	}
	if r.lease == 0 {
		if err := r.enter(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("registering again failed; it will be tried again", "err", err)
		}
		return
	}
	var err error
	for range 2 { // the second try goes to another member of etcd
		call, cancel := context.WithTimeout(ctx, r.ttl/6)
		_, err = r.s.c.KeepAliveOnce(call, r.lease)
		late := call.Err() != nil
		cancel()
		if !late {
			break
		}
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		r.log.Warn("the lease was lost; registering again")
		r.lapse()
		if err := r.enter(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("registering again failed; it will be tried again", "err", err)
		}
	default: // etcd is away: whether the lease lives is for etcd to say when it is back
		r.log.Debug("keepalive failed", "err", err)
	}
}

// gated calls the gate with a third of the ttl.
func (r *Registration) gated(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.ttl/3)
	defer cancel()
	return r.gate(ctx)
}

// firstGated calls the gate until it lets pass. A disk that is slow while everything starts is waited for, as one that is slow
// later is: there is nothing to lose yet, and a start that failed would only be repeated.
func (r *Registration) firstGated(ctx context.Context) error {
	for {
		err := r.gated(ctx)
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		r.log.Warn("registering waits", "err", err)
	}
}

func (r *Registration) lapse() {
	r.lease = 0
	select {
	case r.lost <- struct{}{}:
	default:
	}
}

// enter takes a new lease and writes the key. The first time it replaces whatever is there (an earlier run
// of the same process); later only what it wrote itself, so that two processes of one name show.
func (r *Registration) enter(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	g, err := r.s.c.Grant(call, int64((r.ttl+time.Second-1)/time.Second))
	if err != nil {
		return unavailable("taking a lease for "+r.key, err)
	}
	r.lease = g.ID
	if err := r.write(call); err != nil {
		r.leave()
		return err
	}
	return nil
}

func (r *Registration) write(ctx context.Context) error {
	var cmps []clientv3.Cmp
	if r.revision != 0 {
		have, err := r.s.c.Get(ctx, r.key)
		if err != nil {
			return unavailable("reading "+r.key, err)
		}
		var at int64
		if len(have.Kvs) > 0 {
			at = have.Kvs[0].ModRevision
			if at != r.revision && string(have.Kvs[0].Value) != r.value {
				return fmt.Errorf("meta: another process is registered as %s", r.key)
			}
		}
		cmps = append(cmps, unchanged(r.key, at))
	}
	ok, at, err := r.s.commit(ctx, "registering "+r.key, cmps, clientv3.OpPut(r.key, r.value, clientv3.WithLease(r.lease)))
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("meta: another process registered as %s just now", r.key)
	}
	r.revision = at
	return nil
}

// put writes a changed value under the living lease. A member of etcd that hangs must not take the lease with it, so
// each try is short, and the lease is kept between every two of them (two, so that they go to different members).
func (r *Registration) put(ctx context.Context) error {
	var err error
	for try := range putTries {
		if r.lease == 0 {
			return r.enter(ctx)
		}
		if err = r.replace(ctx); err == nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		if try%2 == 1 {
			r.keep(ctx)
		}
	}
	return err
}

// replace is one try. It compares the revision: an earlier try that was not answered may be carried out later, when
// a newer value is there.
func (r *Registration) replace(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, r.ttl/4)
	defer cancel()
	t, err := r.s.c.Txn(call).If(unchanged(r.key, r.revision)).Then(clientv3.OpPut(r.key, r.value, clientv3.WithLease(r.lease))).
		Else(clientv3.OpGet(r.key)).Commit()
	switch {
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		r.lapse()
		return r.enter(ctx)
	case err != nil && call.Err() != nil:
		return unavailable("updating "+r.key, context.DeadlineExceeded) // grpc's error may be none of ours
	case err != nil:
		return unavailable("updating "+r.key, err)
	case t.Succeeded:
		r.revision = t.Header.Revision
		return nil
	}
	have := t.Responses[0].GetResponseRange().Kvs
	if len(have) == 0 { // it went with the lease, of which we did not hear yet
		r.lapse()
		return r.enter(ctx)
	}
	for _, kv := range have {
		if kv.Lease == int64(r.lease) { // a try of ours that seemed to fail
			r.revision = kv.ModRevision
			return unavailable("updating "+r.key, context.DeadlineExceeded)
		}
	}
	return fmt.Errorf("meta: another process is registered as %s", r.key)
}
