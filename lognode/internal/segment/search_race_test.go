//go:build race

package segment

// The search has one goroutine each; under the race detector it only shows that it still runs.
const (
	defaultStates = 20_000
	defaultWalks  = 200
)
