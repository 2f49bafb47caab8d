package mq

import (
	"slices"
	"time"
)

// MaxSkew is how far a clock may be from the median of the nodes' clocks without being wrong (rule R8).
const MaxSkew = time.Second

// Median is the median of what clocks say, all of which it sorts; there must be one. Of an even number the two in the middle are
// equally good, and the one nearer to own is taken.
func Median(all []int64, own int64) int64 {
	slices.Sort(all)
	low, high := all[(len(all)-1)/2], all[len(all)/2]
	if own-low < high-own {
		return low
	}
	return high
}
