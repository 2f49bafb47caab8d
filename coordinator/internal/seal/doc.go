// Package seal moves partitions from one segment to the next: probe, seal, create, and one transaction.
// decide.go is pure and holds every decision; round.go carries a batch of them out; calls.go speaks to log nodes.
package seal
