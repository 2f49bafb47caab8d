package simulate

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/delivery"
	"github.com/splashdam/splashdam/lognode/internal/schedule"
	"github.com/splashdam/splashdam/shared/mq"
)

const (
	readAgain = 5 * time.Second
	// scheduleTimer is the id of a partition's timer for schedules.
	scheduleTimer = 1 << 63
)

// aheadLimits are small where replica's are large, so that they are met.
var aheadLimits = schedule.Limits{Before: int64(2 * time.Second), Bytes: 8 << 20, Read: 1000, Record: 4, RecordBytes: 1 << 20, Late: 8,
	Hold: int64(time.Second)}

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
		l.ahead.Forget(number)
		return l.book.Cancel(p.now(), number)
	})
}

// Retime gives a pending schedule another due time; the answer comes after commit.
func (n *Node) Retime(id mq.PartitionID, number uint64, due int64, reply func(ScheduleCode, error)) {
	n.change(id, reply, func(p *partition, l *leadership) ScheduleCode {
		code := l.book.Retime(p.now(), number, due)
		if code == ScheduleOK && !l.book.Holds(mq.Schedule{Number: number, Due: due}) {
			l.ahead.Forget(number)
		}
		return code
	})
}

func (n *Node) change(id mq.PartitionID, reply func(ScheduleCode, error), decide func(*partition, *leadership) ScheduleCode) {
	n.serve(id, func(err error) { reply(0, err) }, func(p *partition, l *leadership) {
		code := decide(p, l)
		l.answers.Later(func(err error) { reply(code, err) })
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

// early is by how much the clock for schedules of a node that breaks the rule is ahead.
func (p *partition) early() int64 {
	if p.node.host.Mutation.ReleaseEarly {
		return int64(time.Second)
	}
	return 0
}

// readAhead looks at what is due soon, after a round of events: it begins to read it, and sets the timer.
func (p *partition) readAhead(l *leadership) {
	if l.book.Pending() == 0 || l.seg.Sealed() {
		return
	}
	now := p.now() + p.early()
	if wanted, _ := l.ahead.Next(l.book, now, l.seg.Commit()); len(wanted) > 0 {
		p.readWanted(l, wanted)
	}
	if due, set := l.ahead.Timer(l.book, now); set {
		p.node.setTimer(timerKey{p, scheduleTimer}, due-p.early())
		p.node.arm()
	}
}

// schedulesDue is the timer's word.
func (p *partition) schedulesDue() {
	if l := p.lead; l != nil && l.ahead != nil {
		l.ahead.Fired()
	}
}

// readWanted reads messages beside the partition.
func (p *partition) readWanted(l *leadership, wanted []schedule.Wanted) {
	a := l.ahead
	list := l.overlapping(func(s *mq.Segment) bool {
		for _, w := range wanted {
			if !w.At.Before(s.Base) && w.At.Before(s.End) {
				return true
			}
		}
		return false
	})
	take := func(all []mq.Entry) {
		got := map[uint64]mq.Message{}
		for i := range all {
			there := slices.DeleteFunc(slices.Clone(wanted), func(w schedule.Wanted) bool { return w.At != all[i].At })
			_ = schedule.Messages(&all[i], there, got) // what is missing is read again
		}
		p.post(func() { p.wasRead(a, wanted, got) })
	}
	if all, ok := p.node.disk.at(list, wanted); ok {
		p.node.host.After(0, func() { take(all) })
		return
	}
	p.readAll(list, func(all []mq.Entry, _ error) { take(all) })
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

func (p *partition) wasRead(a *schedule.Ahead, wanted []schedule.Wanted, got map[uint64]mq.Message) {
	l := p.lead
	if l == nil || l.ahead != a {
		return
	}
	for _, w := range a.Read(l.book, wanted, wanted, got) {
		p.node.host.After(readAgain, func() {
			p.post(func() {
				if l := p.lead; l != nil && l.ahead == a {
					l.book.Untake(w.Number)
				}
			})
		})
	}
}

// placeReleases appends the record of what is due now and has been read, and says how many messages that is.
func (p *partition) placeReleases(l *leadership, data []byte, now int64) ([]byte, uint32) {
	first := l.seg.Next().Offset
	due, raw := l.ahead.Release(l.book, p.mayRelease, first, now+p.early())
	if len(due) == 0 {
		return data, 0
	}
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
