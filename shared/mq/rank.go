package mq

// Rank is how much there is against a node's leading, the worse the higher.
type Rank int

// The ranks, by what is wrong with the node.
const (
	RankGood   Rank = iota // it may lead without a second thought
	RankSlow               // its disk is slower than those of other replicas
	RankSkewed             // its clock is off
	RankAvoid              // it is to take no new segments
)

// RankOf is the rank of a node by the worst that is wrong with it.
func RankOf(avoid, skewed, slow bool) Rank {
	switch {
	case avoid:
		return RankAvoid
	case skewed:
		return RankSkewed
	case slow:
		return RankSlow
	}
	return RankGood
}
