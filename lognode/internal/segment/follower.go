package segment

import "github.com/splashdam/splashdam/shared/mq"

// Window bounds what is on its way to one follower, sent but not acknowledged, in bytes. A follower
// beyond it is fed from the leader's store, piece by piece, and stops nobody.
const Window = 16 << 20

// Follower is the leader's view of one other replica: how far it was sent to. One goroutine owns it.
type Follower struct {
	Connected bool
	// Gone says that the replica can't take anything more (sealed, unknown, refused).
	Gone bool
	// Feeding says that a read of the store for this follower is under way.
	Feeding bool

	asked  bool        // its tail is known since the stream began
	sent   mq.Position // the next entry to be sent
	acked  mq.Position
	lag    Lag
	flight []flight // sent, in order; those before head are acknowledged
	head   int
	bytes  int
}

// Commits says whether enough replicas may still acknowledge something: the copies of the others are missing or damaged, or sealed,
// though their nodes answer. followers are those of the leader, nil at its own place.
func (l *Leader) Commits(followers []*Follower) bool {
	n := 0
	for _, f := range followers {
		if f == nil || !f.Gone {
			n++
		}
	}
	return n >= l.seg.Quorum
}

type flight struct {
	next  mq.Position
	bytes int
}

// NewFollower begins at base, not connected.
func NewFollower(base mq.Position) *Follower { return &Follower{sent: base, acked: base} }

// Connect begins a stream: nothing may be sent until the tail is known (Known). What was in flight on the
// stream before is forgotten.
func (f *Follower) Connect() {
	f.Connected, f.asked = true, false
	f.clear()
}

func (f *Follower) clear() { f.flight, f.head, f.bytes = f.flight[:0], 0, 0 }

// Disconnect ends the stream.
func (f *Follower) Disconnect() { f.Connected = false }

// Rewind sets where sending goes on: the tail that the follower names after Connect or after a gap.
func (f *Follower) Rewind(tail mq.Position) {
	f.asked = true
	f.sent = tail
	f.clear()
	f.Acked(tail)
}

// Live says whether the entry at position at is the next one for this follower and may be sent now.
func (f *Follower) Live(at mq.Position) bool {
	return f.Connected && f.asked && !f.Gone && !f.Feeding && f.sent == at && f.bytes < Window
}

// Behind says whether the follower needs feeding from the store: it lacks entries below next, has room, and
// no read is under way.
func (f *Follower) Behind(next mq.Position) bool {
	return f.Connected && f.asked && !f.Gone && !f.Feeding && f.bytes < Window/2 && f.sent.Before(next)
}

// Known says whether the follower's tail is known since the stream began.
func (f *Follower) Known() bool { return f.asked }

// SentTo is the position of the next entry to be sent.
func (f *Follower) SentTo() mq.Position { return f.sent }

// Sent records that an entry went out.
func (f *Follower) Sent(next mq.Position, bytes int) {
	f.sent = next
	f.flight = append(f.flight, flight{next, bytes})
	f.bytes += bytes
}

// Acked records the follower's durable tail.
func (f *Follower) Acked(tail mq.Position) {
	if f.acked.Before(tail) {
		f.acked = tail
	}
	for f.head < len(f.flight) && !tail.Before(f.flight[f.head].next) {
		f.bytes -= f.flight[f.head].bytes
		f.head++
	}
	if f.head > len(f.flight)/2 {
		f.flight = append(f.flight[:0], f.flight[f.head:]...)
		f.head = 0
	}
}

// Lag is for how long the follower has lacked something that the leader has: next is where the leader is, now in Unix
// nanoseconds.
func (f *Follower) Lag(now int64, next mq.Position) int64 { return f.lag.Of(now, f.acked, next) }

// Lag tells for how long one copy has lacked something that another has. The zero value begins when it is asked first.
type Lag struct {
	mark  mq.Position // a place that the other had reached at the time since, and the one had not
	since int64
}

// Of is for how long, at least, something has been lacking: the one has everything below has, the other below next, now in
// nanoseconds by a clock that only counts on. It is as fine as it is asked often.
func (g *Lag) Of(now int64, has, next mq.Position) int64 {
	if !has.Before(g.mark) {
		g.mark, g.since = next, now
	}
	return now - g.since
}

// OwnLag tells for how long a leader's own copy has lacked what others have. The zero value begins when it is asked first.
type OwnLag struct {
	lag    Lag
	commit mq.Position
	moved  int64 // when commit was seen to move
}

// Of is for how long, at least, the own copy, which has everything below has, has lacked something that is committed, now in
// nanoseconds by a clock that only counts on. It is 0 where the others have stood still as well for half of that time, with something placed that they have not
// written: then theirs are no quicker.
func (o *OwnLag) Of(now int64, has, commit, next mq.Position) int64 {
	if commit != o.commit {
		o.commit, o.moved = commit, now
	}
	lag := o.lag.Of(now, has, commit)
	if commit != next && now-o.moved >= lag/2 {
		return 0
	}
	return lag
}

// Whole says whether the follower has everything below next.
func (f *Follower) Whole(next mq.Position) bool { return !f.acked.Before(next) }

// InFlight is how many bytes are sent and not acknowledged.
func (f *Follower) InFlight() int { return f.bytes }
