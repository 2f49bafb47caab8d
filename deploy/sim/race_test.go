//go:build race

package sim

// Runs have one goroutine each; the race detector only has to see that they share nothing.
const defaultSeeds = 20
