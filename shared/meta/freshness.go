package meta

import "time"

const (
	// maxAge is how long etcd may say nothing of a prefix until the view counts as stale: a silent watch is left after
	// maxSilence, and what follows it has to be listed.
	maxAge = maxSilence + 2*askEvery
	// settling is how long after etcd was heard again its view may lack what is there: leases that ran out meanwhile are
	// taken anew.
	settling = 15 * time.Second
)

// Freshness says how far a view can be relied on.
type Freshness struct {
	// Stale: nothing was heard from etcd since Since, so everything that the view holds is from then.
	Stale bool
	// Returned: etcd was away, and is heard again since Since, a moment ago: what is registered anew may be missing.
	Returned bool
	Since    time.Time
}

// Freshness goes by the prefix that etcd has said nothing of for the longest time. It makes no call.
func (v *View) Freshness() Freshness {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.freshness(time.Now())
}

func (v *View) freshness(now time.Time) Freshness {
	oldest := now
	for _, k := range v.kinds {
		if k.heard.Before(oldest) {
			oldest = k.heard
		}
	}
	switch {
	case now.Sub(oldest) > maxAge:
		return Freshness{Stale: true, Since: oldest}
	case !v.back.IsZero() && now.Sub(v.back) < settling:
		return Freshness{Returned: true, Since: v.back}
	}
	return Freshness{}
}

// hear notes that etcd has said something of a prefix. The caller holds v.mu.
func (v *View) hear(k *kind, now time.Time) {
	if !k.heard.IsZero() && now.Sub(k.heard) > maxAge {
		v.back = now
	}
	k.heard = now
}
