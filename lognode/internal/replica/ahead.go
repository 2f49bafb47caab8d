package replica

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// aheadOf is how long before it is due the message of a schedule is read, so that a release waits for no disk.
	aheadOf = 2 * time.Second
	// aheadBytes bounds the messages that one partition holds so; those that are due later are read later.
	aheadBytes = 8 << 20
	// aheadCount is how many are read at a time.
	aheadCount = 1000
	// releaseCount and releaseBytes bound one released record.
	releaseCount = 1000
	releaseBytes = 1 << 20
	// mostLate is how many are due and wait for their message, or for the next record, at most.
	mostLate = 2 * releaseCount
	// readAgain is when a message that could not be read is tried again.
	readAgain = 5 * time.Second
	// holdRelease is when releases that may not happen now are tried again.
	holdRelease = time.Second
)

// scheduleTimer is the id of a partition's timer for schedules; delivery's count up from 1.
const scheduleTimer = 1 << 63

// ahead is what a leader holds of schedules beside the book: the messages that are due soon. It goes over to
// the next leadership at a roll.
type ahead struct {
	messages map[uint64]mq.Message // by number; read and near
	bytes    int
	wanted   []schedule.Wanted // near, not read yet; read once all are committed
	reading  bool
	// late are due and wait for their message, or for what fits the next record, in order of their due times.
	late []mq.Schedule
	// look says that something may be due: the next entry takes it along.
	look    bool
	timer   int64 // when it is set for, 0 for not at all
	held    bool  // releases may not happen now: they are tried again with the timer
	carry   carrying
	builder mq.BatchBuilder
	scratch []byte
}

func newAhead() *ahead { return &ahead{messages: map[uint64]mq.Message{}} }

// mayRelease is the one place that says whether this leader releases schedules now.
func (p *Partition) mayRelease(*leadership) bool {
	// On a disk that is nearly full what is due is late rather than the disk full; by a clock that is wrong it might be early.
	return p.env.Store.PublishAllowed() && !p.env.Skewed()
}

// readAhead looks at what is due soon, after a round of events: it begins to read it, and sets the timer.
func (p *Partition) readAhead(l *leadership) {
	a := l.ahead
	if l.book.Pending() == 0 || l.seg.Sealed() {
		return
	}
	now := p.env.Clock.Now()
	if len(a.wanted) == 0 && !a.reading && a.bytes < aheadBytes && l.book.NextDue() <= now+int64(aheadOf) {
		a.wanted = l.book.Take(now+int64(aheadOf), aheadCount, a.wanted)
	}
	if len(a.wanted) > 0 && !a.reading && a.bytes < aheadBytes && committedAll(l, a.wanted) {
		p.readWanted(l)
	}
	p.carryMore(l)
	p.setScheduleTimer(l, now)
}

func committedAll(l *leadership, list []schedule.Wanted) bool {
	for i := range list {
		if !list[i].At.Before(l.seg.Commit()) {
			return false
		}
	}
	return true
}

// setScheduleTimer sets the timer for the first moment at which there is something to do.
func (p *Partition) setScheduleTimer(l *leadership, now int64) {
	a := l.ahead
	if a.held {
		if a.timer == 0 {
			p.setTimer(a, now+int64(holdRelease))
		}
		return
	}
	next := int64(math.MaxInt64)
	// What is due already waits for the next entry, which looks; where too many are late, for the reading of those.
	if len(a.late) < mostLate && !a.look {
		next = l.book.NearDue()
	}
	if len(a.wanted) == 0 && !a.reading && a.bytes < aheadBytes {
		next = min(next, l.book.NextDue()-int64(aheadOf))
	}
	if next != a.timer && next < math.MaxInt64-int64(aheadOf) {
		p.setTimer(a, next)
	}
}

func (p *Partition) setTimer(a *ahead, due int64) {
	a.timer = due
	p.env.Timers.set(p, []delivery.TimerOp{{ID: scheduleTimer, Cancel: true}, {ID: scheduleTimer, Due: due}})
}

// schedulesDue is the timer's word.
func (p *Partition) schedulesDue() {
	if l := p.lead; l != nil && l.ahead != nil {
		l.ahead.timer, l.ahead.look, l.ahead.held = 0, true, false
	}
}

// readWanted reads messages beside the partition.
func (p *Partition) readWanted(l *leadership) {
	a, j, wanted, room := l.ahead, l.journal(), l.ahead.wanted, aheadBytes-l.ahead.bytes
	a.reading, a.wanted = true, nil
	p.beside(func(ctx context.Context) {
		dealt, got, err := p.readScheduled(ctx, &j, wanted, room)
		p.post(func() { p.wasRead(a, wanted, dealt, got, err) })
	})
}

// wasRead takes what was read of what was wanted; what there was no room for is still wanted.
func (p *Partition) wasRead(a *ahead, wanted, dealt []schedule.Wanted, got map[uint64]mq.Message, err error) {
	a.reading = false
	l := p.lead
	if l == nil || l.ahead != a {
		return
	}
	if err != nil {
		p.env.Metrics.ReadErrors.Inc()
		p.log.Error("messages that are due can't be read, and wait", "err", err)
	}
	a.look = true
	if len(dealt) < len(wanted) {
		done := make(map[uint64]bool, len(dealt))
		for _, w := range dealt {
			done[w.Number] = true
		}
		a.wanted = slices.DeleteFunc(wanted, func(w schedule.Wanted) bool { return done[w.Number] })
	}
	for _, w := range dealt {
		m, ok := got[w.Number]
		switch {
		case !l.book.Holds(w.Schedule): // cancelled or re-timed meanwhile
		case ok:
			a.messages[w.Number] = m
			a.bytes += m.Size()
		default:
			time.AfterFunc(readAgain, func() {
				p.post(func() {
					if l := p.lead; l != nil && l.ahead == a {
						l.book.Untake(w.Number)
					}
				})
			})
		}
	}
}

// forget drops the message of a schedule that is not near any more.
func (a *ahead) forget(number uint64) {
	if m, ok := a.messages[number]; ok {
		a.bytes -= m.Size()
		delete(a.messages, number)
	}
}

// placeReleases appends the record of what is due now and has been read, and says how many messages that is. The book
// says at once that they are released: the entry that is being placed takes them.
func (p *Partition) placeReleases(l *leadership, data []byte, now int64) ([]byte, uint32) {
	a := l.ahead
	if !a.look {
		return data, 0
	}
	a.look = false
	if !p.mayRelease(l) {
		a.held = true
		return data, 0
	}
	for len(a.late) < mostLate {
		s, ok := l.book.Due(now)
		if !ok {
			break
		}
		a.late = append(a.late, s)
	}
	due, kept, first := []mq.Schedule(nil), a.late[:0], l.seg.Next().Offset
	a.builder.Reset()
	for _, s := range a.late {
		m, ok := a.messages[s.Number]
		switch {
		case !l.book.Holds(s): // whoever changed it has seen to its message
		case !ok:
			kept = append(kept, s)
		case len(due) == releaseCount || len(due) > 0 && a.builder.Size()+m.Size() > releaseBytes:
			kept = append(kept, s)
			a.look = true
		default:
			a.builder.Add(&m)
			l.book.Release(s.Number, first+uint64(len(due)))
			a.forget(s.Number)
			due = append(due, s)
		}
	}
	a.late = kept
	if len(due) == 0 {
		return data, 0
	}
	a.look = true // there may be more
	raw := a.builder.AppendTo(nil, "", "", mq.CodecNone, nil)
	attributes, err := delivery.AttributesOf(raw, l.machine.WantsKeys())
	if err != nil { // it was made here
		p.stop(err)
		return data, 0
	}
	l.machine.Append(first, uint32(len(due)), attributes)
	p.env.Metrics.Released.Add(float64(len(due)))
	p.env.Metrics.Late.Observe(float64(now-due[0].Due) / 1e9)
	return mq.AppendRecord(data, mq.KindReleased, mq.AppendScheduleBatch(nil, due, raw)), uint32(len(due))
}
