package replica

import "time"

// lookWaits is how often a leader whose disk is slow says so again while its writers wait.
const lookWaits = 500 * time.Millisecond

// noteWait notes after every round of events whether writers wait for the leader's own disk alone: everything that is
// placed is committed, and there is no room on the way to the disk for more.
func (p *Partition) noteWait() {
	l := p.lead
	if l == nil || !l.serving {
		return
	}
	wait := !l.seg.Sealed() && l.seg.Commit() == l.seg.Next() && (len(l.batches) > 0 || l.answers.Waits()) && !p.mayPlace(l)
	if wait == l.waits.On() {
		return
	}
	l.waits.Note(p.env.Clock.Counted(), wait)
	if wait && l.waited == nil {
		p.lookAtWait(l)
	}
}

// lookAtWait runs one timer while writers wait: a disk that hangs makes no event.
func (p *Partition) lookAtWait(l *leadership) {
	left := time.Duration(l.waits.Left(p.env.Clock.Counted()))
	l.waited = time.AfterFunc(max(left, lookWaits), func() {
		p.post(func() {
			if l.waited = nil; p.lead != l || !l.waits.On() {
				return
			}
			if l.waits.Left(p.env.Clock.Counted()) == 0 {
				p.env.Slow.Store(true)
			}
			p.lookAtWait(l)
		})
	})
}
