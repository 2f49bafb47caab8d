// Package chaos is a test, and nothing else: a cluster of real processes (3 log nodes, 3 coordinators, 2
// gateways) under load while its parts are killed, frozen, restarted, wiped, damaged and starved of disk. It
// proves from the outside that nothing acknowledged is lost.
//
//	go test ./deploy/chaos                                          a smoke of four faults, for CI
//	go test ./deploy/chaos -run Chaos -chaos 10m -timeout 30m -v    all faults, for ten minutes
//	go test ./deploy/chaos -run Gateways -chaos 10m -timeout 30m -v  gateways come and go, under all ways to consume
//	go test ./deploy/chaos -run Failovers -failovers 50 -timeout 60m -v   write gaps by kind of failover
//
// The load mixes all that a topic can do: lanes, keys, idempotency keys with retries and with repeats long after,
// delays and delivery times that are cancelled and moved, TTLs. One group takes everything in any order, one orders by
// key, one does so for members that join, leave and die, one rejects and has its dead letters redriven. Each promise
// has a judge that knows only what clients saw: package checker and the ledger (lost, invented, two values, stored
// twice), order (keys), coverage and rejected (dead letters), timed (never early, once, cancelled, expired).
//
// With gateways that come and go, and on a smaller topic beside the load of the other faults, there are more groups: one
// over server-sent events, one over WebSockets (half of the producers publish over WebSockets, too), one whose members
// are consumers of the SDK, one whose dead letters are published to another topic, and two webhooks, to an endpoint that
// fails, is slow, hangs up, asks for a pause and breaks down. Their judges: order, coverage, exported (one copy of each
// dead letter) and hook (signatures, attempts, what comes again).
//
// The seed is printed and -chaos-seed sets it: the same faults come in the same order, at about the same times.
//
// Rules of a run, but for gateways: one fault at a time, and none before the last one is healed (every partition is written to
// and all its replicas are there), but for "all at once". What replication can't stand twice (a wiped directory,
// damaged files, a full disk) happens to one node only, chosen at the start.
package chaos
