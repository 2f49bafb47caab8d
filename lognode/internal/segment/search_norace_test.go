//go:build !race

package segment

const (
	defaultStates = 1_000_000
	defaultWalks  = 10_000
)
