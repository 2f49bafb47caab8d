package replica

import (
	"context"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	// aheadBytes bounds the messages that one partition holds before they are due, aheadCount is how many are read at a time.
	aheadBytes = 8 << 20
	aheadCount = 1000
	// releaseCount and releaseBytes bound one released record.
	releaseCount = 1000
	releaseBytes = 1 << 20
	// readAgain is when a message that could not be read is tried again.
	readAgain = 5 * time.Second
)

var aheadLimits = schedule.Limits{Before: int64(2 * time.Second), Bytes: aheadBytes, Read: aheadCount, Record: releaseCount, RecordBytes: releaseBytes,
	Late: 2 * releaseCount, Hold: int64(time.Second)}

// scheduleTimer is the id of a partition's timer for schedules; delivery's count up from 1.
const scheduleTimer = 1 << 63

// ahead is what a leader holds of schedules beside the book. It goes over to the next leadership at a roll.
type ahead struct {
	*schedule.Ahead
	carry   carrying
	scratch []byte
}

func newAhead() *ahead { return &ahead{Ahead: schedule.NewAhead(aheadLimits)} }

// mayRelease is the one place that says whether this leader releases schedules now.
func (p *Partition) mayRelease() bool {
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
	if wanted, room := a.Next(l.book, now, l.seg.Commit()); len(wanted) > 0 {
		p.readWanted(l, wanted, room)
	}
	p.carryMore(l)
	if due, set := a.Timer(l.book, now); set {
		p.env.Timers.set(p, []delivery.TimerOp{{ID: scheduleTimer, Cancel: true}, {ID: scheduleTimer, Due: due}})
	}
}

// schedulesDue is the timer's word.
func (p *Partition) schedulesDue() {
	if l := p.lead; l != nil && l.ahead != nil {
		l.ahead.Fired()
	}
}

// readWanted reads messages beside the partition.
func (p *Partition) readWanted(l *leadership, wanted []schedule.Wanted, room int) {
	a, j := l.ahead, l.journal()
	p.beside(func(ctx context.Context) {
		dealt, got, err := p.readScheduled(ctx, &j, wanted, room)
		p.post(func() { p.wasRead(a, wanted, dealt, got, err) })
	})
}

// wasRead takes what was read of what was wanted.
func (p *Partition) wasRead(a *ahead, wanted, dealt []schedule.Wanted, got map[uint64]mq.Message, err error) {
	l := p.lead
	if l == nil || l.ahead != a {
		return
	}
	if err != nil {
		p.env.Metrics.ReadErrors.Inc()
		p.log.Error("messages that are due can't be read, and wait", "err", err)
	}
	for _, w := range a.Read(l.book, wanted, dealt, got) {
		time.AfterFunc(readAgain, func() {
			p.post(func() {
				if l := p.lead; l != nil && l.ahead == a {
					l.book.Untake(w.Number)
				}
			})
		})
	}
}

// placeReleases appends the record of what is due now and has been read, and says how many messages that is.
func (p *Partition) placeReleases(l *leadership, data []byte, now int64) ([]byte, uint32) {
	first := l.seg.Next().Offset
	due, raw := l.ahead.Release(l.book, p.mayRelease, first, now)
	if len(due) == 0 {
		return data, 0
	}
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
