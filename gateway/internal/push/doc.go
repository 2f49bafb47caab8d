// Package push sends the messages of webhooks to their endpoints.
//
// A webhook is a group whose consumer is this engine: on every gateway, for the partitions that the gateway owns.
// What it decides is settled like any consumer's decisions, with the attempt's outcome as the reason, so the
// journal holds the log of attempts and nothing has to be stored here. A gateway that dies leaves nothing behind but
// leases, which log nodes take back when its stream ends.
//
// Each webhook has a runner of its own (runner.go): one goroutine that owns its state, its own connections, and
// a goroutine per attempt under way. An endpoint that hangs therefore holds its own runner's slots and nothing else.
// The runner asks for as many messages as it has room for, never more, so nothing is leased that waits here.
//
// The way of a message: Config.Fetch (leases) -> runner.dispatch -> sender.send (attempt.go: request.go builds,
// guard.go lets dial) -> judge (judge.go: what the answer means) -> Config.Settle.
package push
