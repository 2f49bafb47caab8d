package gateway

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// renewEvery is how often members that are connected are looked at, and renewAtOnce how many are renewed together.
	renewEvery  = 250 * time.Millisecond
	renewAtOnce = 16
	// renewWait bounds one renewal; while etcd is away nobody expires, so it is tried again later.
	renewWait = time.Second
)

// renewals keeps the members alive that are heard of at this gateway: their etcd leases are renewed, each at most four
// times in its ttl however often the member calls, so a member lives for its ttl after its last call and up to a
// quarter longer. A member that calls through several gateways is renewed by each. No
// call waits for a renewal: while the coordinators are away members go on as they were.
type renewals struct {
	store *meta.Store
	log   *slog.Logger
	kick  chan struct{} // capacity 1: somebody is due

	mu  sync.Mutex
	all map[memberID]*signs
}

type memberID struct {
	group mq.GroupID
	name  string
}

// signs are the signs of life of one member at this gateway.
type signs struct {
	member    meta.Member
	connected int       // calls of it that wait here now: each is a sign of life as long as it lasts
	heard     time.Time // the last one that did not last
	renewed   time.Time // when its lease was renewed here
}

func newRenewals(store *meta.Store, log *slog.Logger) *renewals {
	return &renewals{store: store, log: log, kick: make(chan struct{}, 1), all: map[memberID]*signs{}}
}

// rest is how long a renewal is not repeated.
func rest(m *meta.Member) time.Duration { return time.Duration(m.TTL) / 4 }

// hear notes a sign of life that lasts until leave is called; once more does no harm.
func (r *renewals) hear(m meta.Member) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := memberID{m.Group, m.Name}
	s := r.all[id]
	if s == nil || s.member.Lease != m.Lease {
		s = &signs{member: m}
		r.all[id] = s
	}
	s.connected++
	s.heard = time.Now()
	if time.Since(s.renewed) >= rest(&m) {
		select {
		case r.kick <- struct{}{}:
		default:
		}
	}
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.connected--
	})
}

// run renews until ctx ends.
func (r *renewals) run(ctx context.Context) {
	tick := time.NewTimer(renewEvery)
	defer tick.Stop()
	for {
		var look <-chan time.Time // who comes to where nobody is kicks
		if r.any() {
			tick.Reset(renewEvery)
			look = tick.C
		}
		select {
		case <-ctx.Done():
			return
		case <-look:
		case <-r.kick:
		}
		var calls errgroup.Group
		calls.SetLimit(renewAtOnce)
		for _, s := range r.due(time.Now()) {
			calls.Go(func() error {
				r.renew(ctx, s)
				return nil
			})
		}
		_ = calls.Wait() // none of them fails
	}
}

// any says whether somebody was heard of lately.
func (r *renewals) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all) > 0
}

// due are the members to renew now. Those that have not been heard of here for long are forgotten.
func (r *renewals) due(now time.Time) (out []meta.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, s := range r.all {
		ttl := time.Duration(s.member.TTL)
		switch {
		case s.connected == 0 && now.Sub(s.heard) > ttl:
			delete(r.all, id)
		case now.Sub(s.renewed) < rest(&s.member):
		case s.connected > 0 || s.heard.After(s.renewed):
			s.renewed = now
			out = append(out, s.member)
		}
	}
	return out
}

func (r *renewals) renew(ctx context.Context, m meta.Member) {
	ctx, cancel := context.WithTimeout(ctx, renewWait)
	defer cancel()
	if err := r.store.RenewMember(ctx, m); err != nil && ctx.Err() == nil {
		level := slog.LevelDebug
		if mqerr.Is(err, mqerr.MemberExpired) {
			level = slog.LevelInfo // the view will say so to who asks
		}
		r.log.Log(ctx, level, "a member was not renewed", slog.String("member", m.Name), slog.Any("error", err))
	}
}
