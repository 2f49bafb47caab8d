package replica

import (
	"context"
	"sort"
	"sync"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// commitsKept is of how many commits that brought messages a leader keeps the time, in 8 KiB at most: those of half a
// second where a thousand are made a second, and of hours where one is made a minute. In between the journal's next entry
// follows soon enough to tell (commitNear); its time says little on a partition where nothing follows.
const commitsKept = 512

// commitTimes is when the newest messages were committed, by the clock of this run of the leader. It is written on the
// partition's goroutine and read beside it. The zero value knows nothing; beyond commitsKept the oldest is forgotten.
type commitTimes struct {
	mu     sync.Mutex
	ring   []commitTime // by offset, from oldest on
	oldest int
}

// commitTime says that the messages from the one before it up to an offset were committed at a time; 0 for unknown.
type commitTime struct {
	to uint64
	at int64
}

// note keeps that everything below an offset is committed now; a commit without new messages says nothing. at is 0 where
// nobody can say when it was.
func (c *commitTimes) note(to uint64, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.ring)
	switch {
	case n > 0 && to <= c.nth(n-1).to:
	case n < commitsKept:
		c.ring = append(c.ring, commitTime{to, at})
	default:
		c.ring[c.oldest] = commitTime{to, at}
		c.oldest = (c.oldest + 1) % n
	}
}

// of is when a message was committed, in Unix nanoseconds, 0 if it is not known. What the oldest says is not: how much
// came before it is forgotten.
func (c *commitTimes) of(offset uint64) int64 {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.ring)
	if i := sort.Search(n, func(i int) bool { return offset < c.nth(i).to }); i > 0 && i < n {
		return c.nth(i).at
	}
	return 0
}

func (c *commitTimes) nth(i int) *commitTime { return &c.ring[(c.oldest+i)%len(c.ring)] }

// commitNear is how soon after a publish the journal's next entry must have been written to stand for the commit between
// the two.
const commitNear = int64(10 * time.Millisecond)

// committedAt is when the message at offset, of the entry e, was committed: as the leader remembers it, or else the stamp
// of the first entry that says so, if that follows closely. One that comes later is only the latest that it can have
// been. Both are 0 if they are not known: stamps of other leaders are no measure, nor of a clock that was set back.
func (p *Partition) committedAt(ctx context.Context, j *journal, e *mq.Entry, offset uint64) (at, latest int64, err error) {
	if at = j.commits.of(offset); at > e.Stamp {
		return at, 0, nil
	}
	from, found, by := e.Next(), false, j.find(offset)
	for i := 0; i < j.len() && !found && err == nil; i++ {
		if seg := j.at(i); from.Before(seg.End) {
			err = p.walkPiece(ctx, j, i, from, seg.DataEnd(), func(next *mq.Entry) error {
				if next.Commit.Before(mq.Position{Offset: offset + 1}) {
					return nil
				}
				if found = true; sameLeader(by, seg) && next.Stamp > e.Stamp {
					latest = next.Stamp
				}
				return errStop
			})
		}
	}
	if latest != 0 && latest-e.Stamp <= commitNear {
		return latest, 0, err
	}
	return 0, latest, err
}

// sameLeader says whether the stamps in two segments are of one clock.
func sameLeader(a, b *mq.Segment) bool {
	return a != nil && (a.ID == b.ID || a.Leader == b.Leader && a.Leader != mq.Incarnation{})
}
