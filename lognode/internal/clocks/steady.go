package clocks

import "github.com/splashdam/splashdam/shared/mq"

// MaxSkew is how far a node's clock may be from the median of the nodes' clocks without being wrong, and how far it may
// step at once.
const MaxSkew = int64(mq.MaxSkew)

// Steady is the time that a node goes by when it decides what is due: its own clock (Unix nanoseconds), but not where the
// others say that this is wrong, and not over a jump until it is known who is right. Leases and waits are written down as moments;
// one that a clock gave which was an hour ahead for a second would last an hour for everybody who leads after it.
//
// It is a value: Settle makes the next one. mono is a clock that only counts on.
type Steady struct {
	at, mono int64 // when it was settled, by its own word and by the clock that counts on
	correct  int64 // what is added to the own clock
}

// NewSteady begins with the own clock, whatever it says.
func NewSteady(own, mono int64) Steady { return Steady{at: own, mono: mono} }

// Now is the time.
func (s *Steady) Now(own, mono int64) int64 {
	counted := s.at + mono - s.mono
	if now := own + s.correct; abs(now-counted) <= MaxSkew {
		return now
	}
	return counted
}

// Settle takes what the others say of the own clock. That should happen some times a second. by is how much later it is at
// once than it would have been, if that is more than a clock may step: who has counted by the old time must move what it counted.
func (s *Steady) Settle(own, mono int64, said Word) (next Steady, by int64) {
	now := s.Now(own, mono)
	jumped := own+s.correct != now
	switch {
	case said.Soon && jumped: // who is right is known in a moment
		return *s, 0
	case said.Told && abs(int64(said.Ahead)) > MaxSkew:
		next.correct = -int64(said.Ahead)
	case !said.Told && !jumped:
		next.correct = s.correct
	} // else it is right, or there is nothing to hold against it
	next.at, next.mono = own+next.correct, mono
	if by = next.at - now; abs(by) <= MaxSkew {
		by = 0
	}
	return next, by
}
