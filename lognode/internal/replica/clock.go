package replica

import "time"

// MaxSkew is how far a node's clock may be from the median of the nodes' clocks. Beyond it the node releases no schedules and
// leads nothing if others can, and its stamps keep to that (rule R8).
const MaxSkew = time.Second

// Skewed says whether this node's clock is too far from the others'.
func (e *Env) Skewed() bool { return time.Duration(e.Ahead.Load()).Abs() > MaxSkew }

// stamp is the time for an entry: this node's, but at most a second beyond the median of the nodes' clocks.
func (e *Env) stamp() int64 {
	now := time.Now().UnixNano()
	return now - max(0, e.Ahead.Load()-int64(MaxSkew))
}
