package meta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/splashdam/splashdam/shared/beat"
)

const (
	// listPage bounds the keys of one answer when a prefix is listed.
	listPage = 1000
	// firstPatience is how long the first try of a list or a read waits; each failure doubles it, up to callTimeout.
	// The next try goes to another member.
	firstPatience = time.Second
	// askEvery is how often etcd is asked to say something on the watches, and maxSilence how long it may say nothing. A
	// member that hangs keeps its connections, because its kernel answers for it, and everything that it should have
	// told is missing here: which node leads, for example.
	askEvery   = time.Second
	maxSilence = 3 * time.Second
)

// Run keeps the view until ctx ends; its owner calls it once. One loop per prefix: list everything, watch
// from there on, and list again after a compaction, a cancelled watch or a broken connection. Once a minute the
// ModRevisions of all keys are compared, because events get lost (museum 18).
func (v *View) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, k := range v.kinds {
		wg.Add(1)
		go func() {
			defer wg.Done()
			v.follow(ctx, k)
		}()
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		v.askProgress(ctx)
	}()
	wg.Wait()
	return ctx.Err()
}

// stream is what all watches of a view are on: the client puts watches with equal metadata on one, and a stream goes
// to one member.
type stream struct {
	number uint64
	over   chan struct{} // closed when it says nothing any more, so that its watches go to the next one
}

// on is a context for watches on the stream.
func (s *stream) on(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(clientv3.WithRequireLeader(ctx), "splashdam-stream", strconv.FormatUint(s.number, 10))
}

// askProgress asks for a sign of life on the watches again and again, and takes all of them to another stream when one of them
// was told nothing for too long.
func (v *View) askProgress(ctx context.Context) {
	tick := beat.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			v.leaveSilent(now)
		case <-ctx.Done():
			return
		}
		call, cancel := context.WithTimeout(v.stream.Load().on(ctx), askEvery)
		if err := v.s.c.RequestProgress(call); err != nil && ctx.Err() == nil {
			v.log.Debug("etcd could not be asked for progress", "err", err)
		}
		cancel()
	}
}

// leaveSilent begins another stream if a watch on this one was told nothing for too long.
func (v *View) leaveSilent(now time.Time) {
	v.mu.RLock()
	silent := slices.ContainsFunc(v.kinds, func(k *kind) bool { return k.watched && now.Sub(k.heard) > maxSilence })
	v.mu.RUnlock()
	if s := v.stream.Load(); silent {
		v.stream.Store(&stream{number: s.number + 1, over: make(chan struct{})})
		close(s.over)
	}
}

// listens notes that a watch of a prefix listens from now on, or does not. What it starts from was just heard.
func (v *View) listens(k *kind, does bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	k.watched = does
}

func (v *View) follow(ctx context.Context, k *kind) {
	listed := false
	pause := 50 * time.Millisecond
	for ctx.Err() == nil {
		revision, err := v.list(ctx, k)
		if err != nil {
			k.patience = min(2*k.patience, callTimeout)
		} else {
			pause, k.patience = 50*time.Millisecond, firstPatience
			if !listed {
				listed = true
				v.listedOnce()
			}
			err = v.watch(ctx, k, revision)
		}
		if ctx.Err() != nil {
			return
		}
		v.log.Debug("a prefix is listed anew", "prefix", k.prefix, "err", err)
		wait(ctx, pause)
		pause = min(2*pause, time.Second)
	}
}

func (v *View) listedOnce() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.missing--; v.missing == 0 {
		close(v.ready)
	}
	v.notify()
}

func (k *kind) options() []clientv3.OpOption {
	if k.exact {
		return nil
	}
	return []clientv3.OpOption{clientv3.WithPrefix()}
}

// pages calls f with all keys of the prefix as of one revision, which it returns.
func (v *View) pages(ctx context.Context, k *kind, f func([]*mvccpb.KeyValue), more ...clientv3.OpOption) (int64, error) {
	from, end := k.prefix, clientv3.GetPrefixRangeEnd(k.prefix)
	if k.exact {
		end = k.prefix + "\x00"
	}
	var revision int64
	for {
		call, cancel := context.WithTimeout(ctx, k.patience)
		r, err := v.s.c.Get(call, from, append([]clientv3.OpOption{
			clientv3.WithRange(end), clientv3.WithLimit(listPage), clientv3.WithRev(revision)}, more...)...)
		cancel()
		if err != nil {
			return 0, unavailable("listing "+k.prefix, err)
		}
		if revision == 0 {
			revision = r.Header.Revision
		}
		f(r.Kvs)
		if !r.More || len(r.Kvs) == 0 {
			return revision, nil
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
	}
}

// list makes the view equal to etcd as of one revision, which it returns.
func (v *View) list(ctx context.Context, k *kind) (int64, error) {
	var all []*mvccpb.KeyValue
	revision, err := v.pages(ctx, k, func(page []*mvccpb.KeyValue) { all = append(all, page...) })
	if err != nil {
		return 0, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if revision < k.seen {
		return 0, v.wentBack(k, revision)
	}
	present := make(map[string]struct{}, len(all))
	changes := 0
	for _, kv := range all {
		present[string(kv.Key)] = struct{}{}
		if v.apply(k, kv) {
			changes++
		}
	}
	v.settle(k, revision, changes, func(key string) bool { _, ok := present[key]; return ok })
	return revision, nil
}

// wentBack is an etcd that is behind what was seen: put back from an old copy, or another cluster's.
func (v *View) wentBack(k *kind, revision int64) error {
	v.log.Error("etcd is behind what this process has seen of it; its answer is not used",
		"prefix", k.prefix, "revision", revision, "seen", k.seen)
	return fmt.Errorf("meta: etcd answers revision %d of %s, %d was seen", revision, k.prefix, k.seen)
}

// settle removes what a list of that revision did not hold, and ignores events up to it from now on. It adds what it removed to
// the changes that the list brought, and wakes subscribers only if there are any: each look of theirs goes through much.
func (v *View) settle(k *kind, revision int64, changes int, present func(key string) bool) int {
	for key, mod := range k.mods {
		if mod <= revision && !present(key) {
			delete(k.mods, key)
			k.unset(strings.TrimPrefix(key, k.prefix))
			changes++
		}
	}
	v.hear(k, time.Now())
	k.floor, k.seen = max(k.floor, revision), max(k.seen, revision)
	if changes > 0 {
		v.notify()
	}
	return changes
}

// apply takes one value if it is newer than what is held, and says whether it was. The caller holds v.mu.
func (v *View) apply(k *kind, kv *mvccpb.KeyValue) bool {
	key := string(kv.Key)
	if kv.ModRevision <= k.mods[key] {
		return false
	}
	k.mods[key] = kv.ModRevision
	if err := k.set(strings.TrimPrefix(key, k.prefix), kv.Value, kv.ModRevision); err != nil {
		v.log.Error("a value in etcd can't be read; the one before it stays in use", "key", key, "err", err)
	}
	return true
}

// watch applies events after revision until the watch ends.
func (v *View) watch(ctx context.Context, k *kind, revision int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the watch at the server too
	stream := v.stream.Load()
	v.listens(k, true)
	defer v.listens(k, false)
	events := v.s.c.Watch(stream.on(ctx), k.prefix, append(k.options(), clientv3.WithRev(revision+1))...)
	check := time.NewTicker(v.recheck)
	defer check.Stop()
	for {
		select {
		case r, ok := <-events:
			if !ok {
				return errors.New("the watch ended")
			}
			if err := r.Err(); err != nil {
				return err // also a compaction: the list that follows skips what was compacted
			}
			v.take(k, r.Events)
		case <-stream.over:
			return fmt.Errorf("etcd said nothing on the watches for %s", maxSilence)
		case <-check.C:
			v.listens(k, false) // meanwhile
			if err := v.check(ctx, k); err != nil {
				return err
			}
			v.listens(k, true)
		}
	}
}

// take applies events that are newer than what is held.
func (v *View) take(k *kind, events []*clientv3.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.hear(k, time.Now())
	changed := false
	for _, e := range events {
		key := string(e.Kv.Key)
		k.seen = max(k.seen, e.Kv.ModRevision)
		switch {
		case e.Kv.ModRevision <= k.floor || e.Kv.ModRevision <= k.mods[key]:
		case e.Type == mvccpb.Event_DELETE:
			// The deletion's revision is remembered in the floor's stead until the next list: a watch delivers
			// a key's events in order, so only an older list could bring the value back, and lists are newer.
			if _, ok := k.mods[key]; ok {
				delete(k.mods, key)
				k.unset(strings.TrimPrefix(key, k.prefix))
				changed = true
			}
		default:
			changed = v.apply(k, e.Kv) || changed
		}
	}
	if changed {
		v.notify()
	}
}

// check compares the ModRevisions of all keys with what is held and reads what differs.
func (v *View) check(ctx context.Context, k *kind) error {
	present := map[string]int64{}
	revision, err := v.pages(ctx, k, func(page []*mvccpb.KeyValue) {
		for _, kv := range page {
			present[string(kv.Key)] = kv.ModRevision
		}
	}, clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	v.mu.Lock()
	if revision < k.seen {
		defer v.mu.Unlock()
		return v.wentBack(k, revision)
	}
	var behind []string
	for key, mod := range present {
		if mod > k.mods[key] {
			behind = append(behind, key)
		}
	}
	v.mu.Unlock()
	var fresh []*mvccpb.KeyValue
	for _, key := range behind {
		r, err := v.s.read(ctx, "reading "+keyName(key), key)
		if err != nil {
			return err
		}
		if len(r.Kvs) == 0 {
			delete(present, key) // removed meanwhile
		}
		fresh = append(fresh, r.Kvs...)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	late := 0
	for _, kv := range fresh {
		if v.apply(k, kv) {
			late++
		}
	}
	if late = v.settle(k, revision, late, func(key string) bool { _, ok := present[key]; return ok }); late > 0 {
		v.log.Info("a check found keys that no event had brought yet", "prefix", k.prefix, "keys", late)
	}
	return nil
}
