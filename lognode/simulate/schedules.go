package simulate

import (
	"fmt"
	"math"
	"sort"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	aheadOf     = 2 * time.Second
	aheadCount  = 1000
	readAgain   = 5 * time.Second
	holdRelease = time.Second
	// releaseCount bounds one released record.
	releaseCount = 4
	// scheduleTimer is the id of a partition's timer for schedules.
	scheduleTimer = 1 << 63
)

// The codes of schedule calls.
const (
	ScheduleOK       = schedule.OK
	ScheduleUnknown  = schedule.Unknown
	ScheduleReleased = schedule.Released
)

// ScheduleCode says what became of a cancel or a re-timing.
type ScheduleCode = schedule.Code

// Scheduled answers scheduled messages: the number of the first, and when each is due.
type Scheduled struct {
	First uint64
	Dues  []int64
}

// ahead is replica's: what a leader holds of schedules beside the book.
type ahead struct {
	messages map[uint64]mq.Message
	wanted   []schedule.Wanted
	reading  bool
	late     []mq.Schedule
	look     bool
	timer    int64
	held     bool
}

func newAhead() *ahead { return &ahead{messages: map[uint64]mq.Message{}} }

// Schedule takes a batch with a time for each message: when it is due, or below 0 in how long.
func (n *Node) Schedule(id mq.PartitionID, body []byte, times []int64, reply func(Scheduled, error)) {
	n.serve(id, func(err error) { reply(Scheduled{}, err) }, func(_ *partition, l *leadership) {
		b := batch{body: body, count: uint32(len(times)), times: times}
		b.placed = func(a Appended, err error) { reply(Scheduled{a.First, b.times}, err) }
		l.batches = append(l.batches, b)
		l.batchBytes += len(body)
	})
}

// Cancel makes a pending schedule never released; the answer comes after commit.
func (n *Node) Cancel(id mq.PartitionID, number uint64, reply func(ScheduleCode, error)) {
	n.change(id, reply, func(p *partition, l *leadership) ScheduleCode {
		if state, _ := l.book.Look(number); n.host.Mutation.ForgetCancels && state == schedule.StatePending {
			return ScheduleOK
		}
		delete(l.ahead.messages, number)
		return l.book.Cancel(p.now(), number)
	})
}

// Retime gives a pending schedule another due time; the answer comes after commit.
func (n *Node) Retime(id mq.PartitionID, number uint64, due int64, reply func(ScheduleCode, error)) {
	n.change(id, reply, func(p *partition, l *leadership) ScheduleCode {
		code := l.book.Retime(p.now(), number, due)
		if code == ScheduleOK && !l.book.Holds(mq.Schedule{Number: number, Due: due}) {
			delete(l.ahead.messages, number)
		}
		return code
	})
}

func (n *Node) change(id mq.PartitionID, reply func(ScheduleCode, error), decide func(*partition, *leadership) ScheduleCode) {
	n.serve(id, func(err error) { reply(0, err) }, func(p *partition, l *leadership) {
		code := decide(p, l)
		l.unplaced = append(l.unplaced, func(err error) { reply(code, err) })
	})
}

// serve runs a request where the node leads the partition.
func (n *Node) serve(id mq.PartitionID, fail func(error), run func(p *partition, l *leadership)) {
	p := n.partition(id)
	p.post(func() { p.whenServing(fail, func(l *leadership) { run(p, l) }) })
}

// Pending lists the schedules that wait in a partition which this node leads and serves, by number.
func (n *Node) Pending(id mq.PartitionID) map[uint64]int64 {
	out := map[uint64]int64{}
	if l := n.partition(id).lead; l != nil && l.serving {
		for _, w := range l.book.List(mq.Schedule{Due: math.MinInt64}, math.MaxInt) {
			out[w.Number] = w.Due
		}
	}
	return out
}

// placeScheduled gives the messages of a batch their numbers and appends its record.
func (l *leadership) placeScheduled(b *batch, data []byte, now int64) []byte {
	for i, t := range b.times {
		if t < 0 {
			b.times[i] = now - t
		}
	}
	schedules := l.book.Schedule(l.seg.Next(), b.times, len(b.body))
	return mq.AppendRecord(data, mq.KindScheduled, mq.AppendScheduleBatch(nil, schedules, b.body))
}

// mayRelease is replica's.
func (p *partition) mayRelease() bool { return !p.node.off() || p.node.host.Mutation.ReleaseEarly }

// readAhead looks at what is due soon, after a round of events: it begins to read it, and sets the timer.
func (p *partition) readAhead(l *leadership) {
	a := l.ahead
	if l.book.Pending() == 0 || l.seg.Sealed() {
		return
	}
	now := p.now()
	if len(a.wanted) == 0 && !a.reading && l.book.NextDue() <= now+int64(aheadOf) {
		a.wanted = l.book.Take(now+int64(aheadOf), aheadCount, a.wanted)
	}
	committed := true
	for _, w := range a.wanted {
		committed = committed && w.At.Before(l.seg.Commit())
	}
	if len(a.wanted) > 0 && !a.reading && committed {
		p.readWanted(l)
	}
	p.setScheduleTimer(l, now)
}

func (p *partition) setScheduleTimer(l *leadership, now int64) {
	a := l.ahead
	if a.held {
		if a.timer == 0 {
			p.setTimer(a, now+int64(holdRelease))
		}
		return
	}
	next := int64(math.MaxInt64)
	if !a.look {
		next = l.book.NearDue()
	}
	if len(a.wanted) == 0 && !a.reading && l.book.NextDue() != math.MaxInt64 {
		next = min(next, l.book.NextDue()-int64(aheadOf))
	}
	if p.node.host.Mutation.ReleaseEarly && next != math.MaxInt64 {
		next -= int64(aheadOf) / 2
	}
	if next != a.timer && next < math.MaxInt64-int64(aheadOf) {
		p.setTimer(a, next)
	}
}

func (p *partition) setTimer(a *ahead, due int64) {
	a.timer = due
	p.node.setTimer(timerKey{p, scheduleTimer}, due)
	p.node.arm()
}

// schedulesDue is the timer's word.
func (p *partition) schedulesDue() {
	if l := p.lead; l != nil && l.ahead != nil {
		l.ahead.timer, l.ahead.look, l.ahead.held = 0, true, false
	}
}

// readWanted reads messages beside the partition.
func (p *partition) readWanted(l *leadership) {
	a, wanted := l.ahead, l.ahead.wanted
	a.reading, a.wanted = true, nil
	list := l.overlapping(func(s *mq.Segment) bool {
		for _, w := range wanted {
			if !w.At.Before(s.Base) && w.At.Before(s.End) {
				return true
			}
		}
		return false
	})
	take := func(all []mq.Entry, err error) {
		got := map[uint64]mq.Message{}
		for i := range all {
			if err == nil {
				err = scheduledIn(&all[i], wanted, got)
			}
		}
		p.post(func() { p.wasRead(a, wanted, got) })
	}
	if all, ok := p.node.disk.at(list, wanted); ok {
		p.node.host.After(0, func() { take(all, nil) })
		return
	}
	p.readAll(list, take)
}

// at reads the entries that hold schedules, if all of them are here.
func (d *Disk) at(list []mq.Segment, wanted []schedule.Wanted) (out []mq.Entry, ok bool) {
	for i := range list {
		if !d.resident(&list[i]) {
			return nil, false
		}
	}
	read := map[mq.Position]bool{}
	for _, w := range wanted {
		for i := range list {
			s := d.segments[list[i].ID]
			k := sort.Search(len(s.Entries), func(k int) bool { return !s.Entries[k].At.Before(w.At) })
			if read[w.At] || k == len(s.Entries) || s.Entries[k].At != w.At {
				continue
			}
			read[w.At] = true
			e, err := mq.ParseEntry(s.Entries[k].Data)
			if err != nil {
				s.Damaged = true
				return nil, false
			}
			out = append(out, e)
		}
	}
	return out, true
}

// scheduledIn adds the wanted messages of an entry to out.
func scheduledIn(e *mq.Entry, wanted []schedule.Wanted, out map[uint64]mq.Message) error {
	var s mq.ScheduleBatch
	for rec, err := range mq.Records(e.Records) {
		if err != nil {
			return err
		}
		_, ok, err := schedule.ReadScheduled(rec, &s)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := s.Batch.Each(s.Batch.Packed(), func(i int, m *mq.Message) bool {
			for _, w := range wanted {
				if w.Number == s.Schedules[i].Number && w.At == e.At {
					out[w.Number] = *m
				}
			}
			return true
		}); err != nil {
			return err
		}
	}
	return nil
}

func (p *partition) wasRead(a *ahead, wanted []schedule.Wanted, got map[uint64]mq.Message) {
	a.reading = false
	l := p.lead
	if l == nil || l.ahead != a {
		return
	}
	a.look = true
	for _, w := range wanted {
		m, ok := got[w.Number]
		switch {
		case !l.book.Holds(w.Schedule): // cancelled or re-timed meanwhile
		case ok:
			a.messages[w.Number] = m
		default:
			p.node.host.After(readAgain, func() {
				p.post(func() {
					if l := p.lead; l != nil && l.ahead == a {
						l.book.Untake(w.Number)
					}
				})
			})
		}
	}
}

// placeReleases appends the record of what is due now and has been read, and says how many messages that is.
func (p *partition) placeReleases(l *leadership, data []byte, now int64) ([]byte, uint32) {
	a := l.ahead
	if !a.look {
		return data, 0
	}
	a.look = false
	if !p.mayRelease() {
		a.held = true
		return data, 0
	}
	if p.node.host.Mutation.ReleaseEarly {
		now += int64(aheadOf) / 2
	}
	for {
		s, ok := l.book.Due(now)
		if !ok {
			break
		}
		a.late = append(a.late, s)
	}
	var due, kept []mq.Schedule
	var builder mq.BatchBuilder
	first := l.seg.Next().Offset
	for _, s := range a.late {
		m, ok := a.messages[s.Number]
		switch {
		case !l.book.Holds(s): // whoever changed it has seen to its message
		case !ok:
			kept = append(kept, s)
		case len(due) == releaseCount:
			kept = append(kept, s)
			a.look = true
		default:
			builder.Add(&m)
			l.book.Release(s.Number, first+uint64(len(due)))
			delete(a.messages, s.Number)
			due = append(due, s)
		}
	}
	if a.late = kept; len(due) == 0 {
		return data, 0
	}
	a.look = true // there may be more
	raw := builder.AppendTo(nil, "", "", mq.CodecNone, nil)
	attributes, err := delivery.AttributesOf(raw, l.machine.WantsKeys())
	if err != nil {
		p.stop(err)
		return data, 0
	}
	l.machine.Append(first, uint32(len(due)), attributes)
	return mq.AppendRecord(data, mq.KindReleased, mq.AppendScheduleBatch(nil, due, raw)), uint32(len(due))
}

// loadSchedules makes the book of a checkpoint whole, from the entries before it.
func (o *loaded) loadSchedules(all []mq.Entry, asOf mq.Position) error {
	book, from, err := schedule.Load(o.machine.TakeBeside(delivery.SectionSchedules))
	if err != nil {
		return fmt.Errorf("the schedules of a checkpoint: %w", err)
	}
	o.book = book
	for i := range all {
		if e := &all[i]; book.Restoring() > 0 && !e.At.Before(from) && e.At.Before(asOf) {
			if err := book.Restore(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside is the book's part of a checkpoint.
func (l *leadership) beside() []delivery.Beside {
	state := l.book.AppendState(nil)
	if state == nil {
		return nil
	}
	return []delivery.Beside{{Section: delivery.SectionSchedules, Data: state}}
}
