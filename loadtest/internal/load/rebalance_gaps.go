package load

import (
	"fmt"
	"strings"
	"time"
)

// arrival is one delivery; times count from the start of the run.
type arrival struct {
	at     time.Duration
	member string
}

// turn is an assignment from the time on at which it was seen; owners by partition.
type turn struct {
	at     time.Duration
	owners []string
}

// phase is a stretch of the run that begins with a change.
type phase struct {
	name     string
	from, to time.Duration
}

// Rebalanced is what one change did.
type Rebalanced struct {
	Change string  `json:"change"`
	At     float64 `json:"at_seconds"`
	Moved  int     `json:"moved"`  // partitions that changed hands
	Stayed int     `json:"stayed"` // and that did not
	// Gap is the longest time without a delivery of any partition that stayed, MovedGap of any that moved.
	Gap      float64 `json:"gap_ms"`
	MovedGap float64 `json:"moved_gap_ms"`
	// Assigned is when the new assignment was seen, after the change. TakenOver is the longest time from then to the
	// first delivery to a partition's new owner.
	Assigned  float64 `json:"assigned_after_ms"`
	TakenOver float64 `json:"taken_over_ms"`
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// analyse says for each phase what moved and how long partitions were without a delivery.
func analyse(delivered [][]arrival, phases []phase, turns []turn) []Rebalanced {
	var out []Rebalanced
	for _, f := range phases {
		before, after := ownersAt(turns, f.from), ownersAt(turns, f.to)
		r := Rebalanced{Change: f.name, At: f.from.Seconds()}
		assigned := f.to
		for _, t := range turns {
			if t.at >= f.from && t.at < assigned {
				assigned = t.at
			}
		}
		if assigned < f.to {
			r.Assigned = ms(assigned - f.from)
		}
		for p := range delivered {
			gap := ms(longestGap(delivered[p], f))
			if before == nil || before[p] == after[p] {
				r.Stayed++
				r.Gap = max(r.Gap, gap)
				continue
			}
			r.Moved++
			r.MovedGap = max(r.MovedGap, gap)
			r.TakenOver = max(r.TakenOver, ms(takenOver(delivered[p], f, assigned, after[p])))
		}
		out = append(out, r)
	}
	return out
}

// ownersAt are the owners by the last turn before a time; nil if there was none.
func ownersAt(turns []turn, at time.Duration) (owners []string) {
	for _, t := range turns {
		if t.at <= at {
			owners = t.owners
		}
	}
	return owners
}

// longestGap is the longest time between two deliveries that overlaps a phase. What lasts to the end counts up to there.
func longestGap(list []arrival, f phase) time.Duration {
	longest, last := time.Duration(0), f.from
	for _, a := range list {
		if a.at > f.to {
			break
		}
		if a.at > f.from {
			longest = max(longest, a.at-last)
		}
		last = a.at
	}
	return max(longest, f.to-max(last, f.from))
}

// takenOver is how long after the assignment the new owner got its first message.
func takenOver(list []arrival, f phase, assigned time.Duration, owner string) time.Duration {
	for _, a := range list {
		if a.at >= f.from && a.member == owner {
			return max(0, a.at-assigned)
		}
	}
	return f.to - assigned
}

func writeRebalance(b *strings.Builder, list []Rebalanced) {
	fmt.Fprintf(b, "\n%-16s %7s %9s %12s %12s %12s\n", "change", "moved", "gap in ms", "assigned ms", "moved: gap", "taken over")
	for _, r := range list {
		fmt.Fprintf(b, "%-16s %3d/%-3d %9.0f %12.0f %12.0f %12.0f\n", r.Change, r.Moved, r.Moved+r.Stayed, r.Gap, r.Assigned, r.MovedGap, r.TakenOver)
	}
}
