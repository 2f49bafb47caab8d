package lognode

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// silenceEvery is how often a node looks who has fallen silent.
	silenceEvery = 400 * time.Millisecond
	// silentLong is how long a follower may be silent before another node takes its place, silentMost where a leader is
	// not heard by a quorum meanwhile: it can commit nothing, so that there is nothing to wait for.
	silentLong = 10 * time.Second
	silentMost = 2 * time.Second
	// maxBehind bounds the segments of a report; the others come when these have been replaced.
	maxBehind = 1000
)

// lags takes a leader's word which followers of its segment have lacked something for too long.
func (w *wants) lags(id mq.SegmentID, followers []mq.StoreID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(w.late[id], followers) {
		return
	}
	if w.late[id] = followers; len(followers) == 0 {
		delete(w.late, id)
	}
	w.again()
}

// behind are the followers of a segment led here that can't be counted on.
func (w *wants) behind(s *mq.Segment, now time.Time) []mq.StoreID {
	w.mu.Lock()
	late := w.late[s.ID]
	w.mu.Unlock()
	answer, silent := 1, []mq.StoreID(nil)
	long := make([]mq.StoreID, 0)
	for _, r := range s.Replicas {
		if r.Store == s.Leader.Store {
			continue
		}
		switch quiet := w.n.peers.quiet(r.Store, now); {
		case quiet > silentLong:
			long, silent = append(long, r.Store), append(silent, r.Store)
		case quiet > silentMost:
			silent = append(silent, r.Store)
		default:
			answer++
			if slices.Contains(late, r.Store) {
				long = append(long, r.Store)
			}
		}
	}
	if answer < s.Quorum {
		return silent
	}
	return long
}

// quiet is for how long nothing came from a node, counted from this node's start at most.
func (ps *peers) quiet(id mq.StoreID, now time.Time) time.Duration {
	heard := ps.Heard(id)
	if heard.Before(ps.began) {
		heard = ps.began
	}
	return now.Sub(heard)
}

// silence names who is silent, and whether for long, to notice that it changed.
func (ps *peers) silence(now time.Time) string {
	ps.mu.Lock()
	var all []mq.StoreID
	for id := range ps.byStore {
		all = append(all, id)
	}
	ps.mu.Unlock()
	slices.Sort(all)
	var b strings.Builder
	for _, id := range all {
		if quiet := ps.quiet(id, now); quiet > silentMost {
			fmt.Fprintf(&b, "%s %t ", id, quiet > silentLong)
		}
	}
	return b.String()
}
