// Package seal moves partitions from one segment to the next: probe, seal, create, and one transaction.
// decide.go says whether that is to be done, plan.go how the next segment looks, with history.go and blame.go: they are pure. round.go
// carries a batch of them out; calls.go speaks to log nodes.
package seal
