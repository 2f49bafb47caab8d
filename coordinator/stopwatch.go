package coordinator

import "time"

// stopwatch turns moments of this process into numbers that only count on, as the decisions of internal/seal take them: by
// the clock on the wall, an hour that it is set back would be an hour in which no partition gets another leader (rule R8).
type stopwatch struct{ began time.Time }

// at is a moment in nanoseconds: Unix time when the stopwatch began, and then what has passed.
func (s stopwatch) at(t time.Time) int64 { return s.began.UnixNano() + int64(t.Sub(s.began)) }

// time is the reverse of at.
func (s stopwatch) time(at int64) time.Time {
	return s.began.Add(time.Duration(at - s.began.UnixNano()))
}
