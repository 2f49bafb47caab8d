package chaos

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/shared/client"
)

// place is where a message is.
type place struct {
	partition uint32
	offset    uint64
}

// sent is what the answers said of one message.
type sent struct {
	at      place
	stored  bool // at is where
	unknown bool // it may be stored
}

// ledger compares what was answered with what the journals hold, read without a group: package checker sees
// what consumers get, which is not the same way through the code.
type ledger struct {
	mu       sync.Mutex
	messages map[uint32]sent
}

func newLedger() *ledger { return &ledger{messages: map[uint32]sent{}} }

func (l *ledger) stored(id, partition uint32, offset uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages[id] = sent{at: place{partition, offset}, stored: true}
}

func (l *ledger) unknown(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages[id] = sent{unknown: true}
}

// audit is what a reading of all journals found. All but read must be 0.
type audit struct {
	read, lost, phantom, twoValues, outOfRow int
	examples                                 []string
	places                                   []place // of what every group must have got
}

func (a *audit) note(count *int, format string, args ...any) {
	if *count++; *count <= 10 {
		a.examples = append(a.examples, fmt.Sprintf(format, args...))
	}
}

func (a *audit) bad() int { return a.lost + a.phantom + a.twoValues + a.outOfRow }

// readAll reads every partition from its begin and judges it.
func (l *ledger) readAll(ctx context.Context, c *client.Client, tr *traffic, partitions int) (audit, error) {
	var a audit
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[uint32]int{}
	for p := range uint32(partitions) {
		next := uint64(0)
		for m, err := range c.Messages(ctx, tr.topic, client.ReadOptions{Partition: &p, From: "earliest", Limit: 1000}) {
			if err != nil {
				return a, fmt.Errorf("reading partition %d from offset %d: %w", p, next, err)
			}
			if m.Offset != next {
				a.note(&a.outOfRow, "partition %d: offset %d comes where %d is expected", p, m.Offset, next)
			}
			next = m.Offset + 1
			a.read++
			at := place{p, m.Offset}
			id, ttl, timed := tr.timed.parse([]byte(m.Value))
			if ttl == 0 {
				a.places = append(a.places, at)
			}
			if timed {
				tr.timed.journaled(id, at)
				continue
			}
			l.judge(&a, seen, at, checker.ID([]byte(m.Value)))
		}
	}
	for id, s := range l.messages {
		if s.stored && seen[id] == 0 {
			a.note(&a.lost, "message %d was acknowledged at %d/%d and is nowhere", id, s.at.partition, s.at.offset)
		}
	}
	return a, nil
}

func (l *ledger) judge(a *audit, seen map[uint32]int, at place, id uint32) {
	s, known := l.messages[id]
	seen[id]++
	where := strconv.Itoa(int(at.partition)) + "/" + strconv.FormatUint(at.offset, 10)
	switch {
	case !known:
		a.note(&a.phantom, "%s holds message %d, which was not sent, or refused as not stored", where, id)
	case s.stored && s.at != at:
		a.note(&a.twoValues, "%s holds message %d, which was acknowledged at %d/%d", where, id, s.at.partition, s.at.offset)
	case seen[id] > 1:
		a.note(&a.phantom, "%s holds message %d a second time", where, id)
	}
}
