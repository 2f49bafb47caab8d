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

	"github.com/splashdam/splashdam/shared/beat"
)

// Registration keeps a leased key alive. A lease that is lost (late keepalives, etcd's trouble) is never
// used again: the key is written anew under a new lease (museum 7, 17). A key that somebody else has is left to them, and
// written anew when they are gone.
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
	revision int64            // ModRevision of the last value that we wrote, or found and may replace; 0: there is none
	rival    string           // what another process has under the key, if that was seen and said
}

// Registrant is what may be registered: Node, Gateway, Coordinator or Report.
type Registrant interface {
	// replaces says whether a registered value is of an earlier run of the same process, which is known to be over.
	replaces(value []byte) bool
}

// putTries is how often an Update that is not answered is tried, each time for a quarter of the ttl.
const putTries = 4

// leaseMargin is how late etcd may be to end a lease that has run out.
const leaseMargin = 2 * time.Second

type update struct {
	value string
	done  chan error
}

// Register writes value (as JSON) under a leased key and keeps it there until Close. It returns when the
// key is there, or ctx ends. ttl is rounded up to whole seconds.
//
// What an earlier run of the same process has left is replaced. What somebody else has is waited for as long as its lease lives
// without a sign of life; if there is one, two processes have one name, and that is the error.
//
// gate, if not nil, is called before each keepalive (three in a ttl, or a little more often) with a context of a third of the ttl,
// and must return when that ends: while it fails no keepalive is sent and the lease runs out, so a node whose disk
// stalls loses its registration though its process lives (museum 4). At first the gate is waited for; an error of it that is
// not context.DeadlineExceeded is Register's.
func (s *Store) Register(ctx context.Context, key string, value Registrant, ttl time.Duration, gate func(context.Context) error) (*Registration, error) {
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
	if err := r.claim(ctx, value); err != nil {
		return nil, err
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
		return unavailable("updating "+keyName(r.key), ctx.Err())
	}
	select {
	case err := <-u.done:
		return err
	case <-ctx.Done():
		return unavailable("updating "+keyName(r.key), ctx.Err())
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
	tick := beat.NewTicker(beat.Below(r.ttl / 3))
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
	case ctx.Err() != nil:
	case err == nil:
		r.look(ctx)
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

// look makes sure that the key is there and ours: the lease may live without it, and everybody but this process would know.
func (r *Registration) look(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, r.ttl/6)
	defer cancel()
	have, err := r.s.c.Get(call, r.key)
	switch {
	case err != nil:
		r.log.Debug("the registration could not be looked at", "err", err)
	case len(have.Kvs) == 0:
		r.log.Warn("the registration is gone; registering again")
		r.leave()
		r.lapse()
		if err := r.enter(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("registering again failed; it will be tried again", "err", err)
		}
	case have.Kvs[0].Lease == int64(r.lease):
		r.rival = ""
	case string(have.Kvs[0].Value) != r.rival:
		r.rival = string(have.Kvs[0].Value)
		r.log.Error("another process is registered under this name: this one is not used until that one is gone; give each its own name",
			"registered", r.rival)
	}
}

// claim makes sure that the key may be written: nobody has it, or an earlier run of this process. Who else has it and is dead loses
// it with its lease; twice its ttl is waited for that, as etcd lets leases begin anew when its leader changes.
func (r *Registration) claim(ctx context.Context, value Registrant) error {
	tick := time.NewTicker(r.ttl / 10)
	defer tick.Stop()
	var until <-chan time.Time
	for over := false; ; {
		have, err := r.s.read(ctx, "reading "+keyName(r.key), r.key)
		if err != nil {
			return err
		}
		if r.revision = 0; len(have.Kvs) == 0 {
			return nil
		}
		kv := have.Kvs[0]
		if value.replaces(kv.Value) {
			r.revision = kv.ModRevision
			return nil
		}
		if over {
			return fmt.Errorf("the name is taken: another process is registered as %s, and lives; give this one a name of its own (--name), or stop that one: %s",
				keyName(r.key), kv.Value)
		}
		if until == nil {
			has, err := r.s.c.TimeToLive(ctx, clientv3.LeaseID(kv.Lease))
			if err != nil {
				return unavailable("looking at the lease of "+r.key, err)
			}
			wait := 2*time.Duration(has.GrantedTTL)*time.Second + leaseMargin
			r.log.Warn("another process has this name: it is waited whether that lives", "at most", wait, "registered", string(kv.Value))
			timer := time.NewTimer(wait)
			defer timer.Stop()
			until = timer.C
		}
		select {
		case <-tick.C:
		case <-until:
			over = true // and look once more
		case <-ctx.Done():
			return unavailable("registering "+keyName(r.key), ctx.Err())
		}
	}
}

// enter takes a new lease and writes the key, where that has nothing but what this process wrote or may replace.
func (r *Registration) enter(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	g, err := r.s.c.Grant(call, int64((r.ttl+time.Second-1)/time.Second))
	if err != nil {
		return unavailable("taking a lease for "+keyName(r.key), err)
	}
	r.lease = g.ID
	if err := r.write(call); err != nil {
		r.leave()
		return err
	}
	return nil
}

func (r *Registration) write(ctx context.Context) error {
	have, err := r.s.c.Get(ctx, r.key)
	if err != nil {
		return unavailable("reading "+keyName(r.key), err)
	}
	var at int64
	if len(have.Kvs) > 0 {
		at = have.Kvs[0].ModRevision
		if at != r.revision && string(have.Kvs[0].Value) != r.value {
			return fmt.Errorf("meta: another process is registered as %s; it is %s", r.key, have.Kvs[0].Value)
		}
	}
	ok, at, err := r.s.commit(ctx, "registering "+keyName(r.key), []clientv3.Cmp{unchanged(r.key, at)},
		clientv3.OpPut(r.key, r.value, clientv3.WithLease(r.lease)))
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("meta: another process registered as %s just now", r.key)
	}
	r.revision, r.rival = at, ""
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
		return unavailable("updating "+keyName(r.key), context.DeadlineExceeded) // grpc's error may be none of ours
	case err != nil:
		return unavailable("updating "+keyName(r.key), err)
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
			return unavailable("updating "+keyName(r.key), context.DeadlineExceeded)
		}
	}
	return fmt.Errorf("meta: another process is registered as %s", r.key)
}
