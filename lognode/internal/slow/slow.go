// Package slow decides when a node's disk is slower than those of the other replicas, and when no longer (rule 6 of the open
// segment). It is pure: the time is an argument, in nanoseconds by a clock that only counts on.
//
// A disk that is slow for everybody must not move anything: whoever leads next would be no quicker, and each move costs a
// seal. So a leader asks what only a difference makes true: whatever it has placed is committed, which others have done, and
// still its writers wait, because its own disk has not written enough of it for more to be taken.
package slow

import "time"

const (
	// waitMost is for how long writers wait for the leader's own disk alone before that is slow.
	waitMost = int64(5 * time.Second)
	// forgive is how much faster the time in which nobody waits is counted: below three quarters of the time it is never slow.
	forgive = 3
)

// Waits counts how long the writers of one leader have waited for its own disk alone. The zero value is "never". One
// goroutine at a time uses it.
type Waits struct {
	on   bool
	at   int64 // when it was counted
	time int64 // 0 to waitMost
}

// On says whether they wait, as was noted last.
func (w *Waits) On() bool { return w.on }

// Note says whether they wait from now on.
func (w *Waits) Note(now int64, on bool) { w.time, w.at, w.on = w.counted(now), now, on }

// Left is how much longer they must go on waiting until the disk is slow, 0 if it is.
func (w *Waits) Left(now int64) int64 { return waitMost - w.counted(now) }

func (w *Waits) counted(now int64) int64 {
	d := now - w.at
	if !w.on {
		d *= -forgive
	}
	return min(max(w.time+d, 0), waitMost)
}

const (
	// Quick is how long an entry may have waited for a disk that is as quick as another.
	Quick = 500 * time.Millisecond
	// restFirst is for how long a disk must have been quick before the node says so; it doubles up to restMost each time that
	// the disk is found slow again within ten rests. So a node gives its leaderships away a few times in an hour at most.
	restFirst = int64(30 * time.Second)
	restMost  = int64(30 * time.Minute)
)

// Disk is what a node says of its disk. The zero value says that it is as quick as the others.
type Disk struct {
	slow  bool
	since int64 // since when it has been quick, while it is called slow; else when that ended
	rest  int64
}

// Look is asked a few times a second: found says that a leader on this node has found it slow since, waited how long the oldest entry has
// waited for it by now. It says whether the node is to call its disk slow.
func (d *Disk) Look(now int64, found bool, waited time.Duration) bool {
	switch {
	case found && !d.slow:
		if again := d.rest != 0 && now-d.since < 10*d.rest; again {
			d.rest = min(2*d.rest, restMost)
		} else {
			d.rest = restFirst
		}
		d.slow, d.since = true, now
	case d.slow && (found || waited > Quick):
		d.since = now
	case d.slow && now-d.since >= d.rest:
		d.slow, d.since = false, now
	}
	return d.slow
}
