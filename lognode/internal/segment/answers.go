package segment

import (
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Answers are what a leader owes: each is told once what it is about is committed, or that this is not known any more. They go over to the
// next leadership at a roll, as a copy of which the old one is used no more. The zero value owes nothing. One goroutine uses it; what is
// told may add to it.
type Answers struct {
	placed []answer // by position
	later  []func(error)
}

type answer struct {
	at   mq.Position
	tell func(error)
}

// At adds one about everything before a position, which is not lower than those before.
func (a *Answers) At(at mq.Position, tell func(error)) { a.placed = append(a.placed, answer{at, tell}) }

// Later adds one about something that has no position yet.
func (a *Answers) Later(tell func(error)) { a.later = append(a.later, tell) }

// Waits says whether some wait for their position.
func (a *Answers) Waits() bool { return len(a.later) > 0 }

// Placed says that what those wait for who have no position yet lies before one.
func (a *Answers) Placed(at mq.Position) {
	for _, tell := range a.later {
		a.At(at, tell)
	}
	a.later = nil
}

// Release tells success to all about what is committed.
func (a *Answers) Release(commit mq.Position) {
	n := 0
	for n < len(a.placed) && !commit.Before(a.placed[n].at) {
		a.placed[n].tell(nil)
		a.placed[n].tell = nil
		n++
	}
	if a.placed = a.placed[n:]; len(a.placed) == 0 {
		a.placed = nil
	}
}

// End tells all that the leadership is over. What has no position, or lies beyond end, was never stored for anyone: they hear the cause.
// The rest may or may not be, as far as this node can know; where end is not known (nil) that is all of it.
func (a *Answers) End(cause error, end *mq.Position) {
	for _, w := range a.placed {
		if end != nil && end.Before(w.at) {
			w.tell(cause)
		} else {
			w.tell(mqerr.New(mqerr.OutcomeUnknown, "leadership ended before the answer was sure"))
		}
	}
	for _, tell := range a.later {
		tell(cause)
	}
}
