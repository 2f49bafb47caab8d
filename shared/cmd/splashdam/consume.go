package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

type consumeCmd struct {
	Topic     string        `arg:"" help:"Topic."`
	Group     string        `short:"g" help:"Group to consume with; default: read without one, from --from on."`
	Ack       bool          `default:"true" negatable:"" help:"Acknowledge what was printed."`
	Lease     time.Duration `help:"Lease of what is received; default: the group's."`
	Follow    bool          `short:"f" help:"Go on waiting for more."`
	Stream    bool          `help:"Follow by a stream of the group instead of long polls."`
	WebSocket bool          `name:"ws" help:"Follow over a WebSocket, and acknowledge on it."`
	Max       int           `short:"n" default:"0" help:"Messages at most; 0: no bound."`
	Partition *uint32       `help:"Read this partition only."`
	Only      []uint32      `name:"partitions" help:"With --group: only from these, like 0,3."`
	Archived  bool          `name:"include-archived" aliases:"include-deleted" help:"Read what is in the archive too."`
	From      string        `help:"Read from an offset (with --partition), a time (RFC 3339), how long ago (2h), earliest or latest."`
	To        string        `help:"Read to an offset (with --partition), a time, how long ago, or latest."`
	FromTime  past          `help:"Read from a time (RFC 3339), or from how long ago: 2h."`
	ToTime    past          `help:"Read to a time."`
	Raw       bool          `help:"Print values alone, a line each."`
	Member    string        `help:"Join the group, which is assigned, under this name."`
	Zone      string        `help:"Where the member runs; it gets partitions led there."`
	TTL       time.Duration `name:"ttl" help:"How long a silent member stays, 2s to 5m (10s)."`
	Exec      string        `help:"Run this command per message, value on stdin, MQ_ variables; exit 0 acknowledges it."`
	// Concurrency is for --exec alone.
	Concurrency int `default:"1" help:"Commands that --exec runs at once."`
}

func (c *consumeCmd) Run(s *session) error {
	p := s.printer(c.Raw)
	if c.Max < 0 {
		return wrongUsage("--max must be 1 or more, or 0 for no bound")
	}
	if c.Group == "" && (c.Stream || c.WebSocket) {
		return wrongUsage("--stream and --ws need --group")
	}
	if c.Stream && c.WebSocket {
		return wrongUsage("give --stream or --ws")
	}
	if c.Group == "" && (c.Member != "" || c.Exec != "" || c.Only != nil) {
		return wrongUsage("--member, --exec and --partitions are for consuming with --group")
	}
	if c.Member == "" && (c.Zone != "" || c.TTL != 0) {
		return wrongUsage("--zone and --ttl are a member's: they need --member")
	}
	if c.Group == "" {
		o, err := c.range_()
		if err != nil {
			return err
		}
		return read(s, p, c.Topic, o, c.Max)
	}
	if c.From != "" || c.To != "" || c.FromTime != (past{}) || c.ToTime != (past{}) || c.Partition != nil || c.Archived {
		return wrongUsage("--from, --to, --from-time, --to-time, --partition and --include-archived are for reading without --group; with it there is --partitions")
	}
	switch {
	case c.Exec != "" && (!c.Ack || c.Raw || c.Stream || c.WebSocket):
		return wrongUsage("with --exec the command's exit status acknowledges, and only it prints; --stream and --ws are without")
	case c.Concurrency < 1 || c.Concurrency > 1000:
		return wrongUsage("--concurrency must be 1 to 1000")
	case c.Exec != "":
		return c.execute(s)
	case c.Stream, c.WebSocket:
		return c.stream(s, p)
	}
	return c.receive(s, p)
}

// range_ makes what to read of the flags.
func (c *consumeCmd) range_() (client.ReadOptions, error) {
	if c.From != "" && c.FromTime != (past{}) || c.To != "" && c.ToTime != (past{}) {
		return client.ReadOptions{}, wrongUsage("give --from or --from-time, and --to or --to-time")
	}
	now := time.Now()
	o := client.ReadOptions{Partition: c.Partition, From: readPlace(c.From, now) + c.FromTime.text(), To: readPlace(c.To, now) + c.ToTime.text(), Archived: c.Archived, Limit: pageLength(c.Max)}
	if c.Follow {
		o.Wait = 20 * time.Second
	}
	return o, nil
}

func pageLength(n int) int {
	if n > 0 {
		return min(n, 1000)
	}
	return 1000
}

// receive consumes with the group. A signal ends it after what was received is printed and acknowledged.
func (c *consumeCmd) receive(s *session, p *printer) error {
	member, leave, err := c.join(s)
	if err != nil {
		return interruptedIsFine(s, err)
	}
	defer leave()
	for left := c.Max; s.ctx.Err() == nil && (c.Max == 0 || left > 0); {
		request := api.ReceiveRequest{Max: 100, Wait: api.Duration(time.Second), Lease: api.Duration(c.Lease), Consumer: consumerName, Partitions: c.Only}
		if member != nil {
			request.Member, request.Consumer = c.Member, ""
		}
		if c.Follow {
			request.Wait = api.Duration(20 * time.Second)
		}
		if c.Max > 0 {
			request.Max = min(request.Max, left)
		}
		stop := s.notes.slow(time.Duration(request.Wait) + slowAnswer)
		got, err := s.client.Receive(s.ctx, c.Topic, c.Group, request)
		stop()
		if err != nil && member != nil && client.IsNotMember(err) {
			member.Lost() // it joins again
			s.wait(100 * time.Millisecond)
			continue
		}
		if err != nil && c.Follow && passes(err) && s.ctx.Err() == nil {
			s.notes.trying(err, tryingAgain)
			s.wait(time.Second)
			continue
		}
		if err != nil {
			return interruptedIsFine(s, err)
		}
		left -= len(got)
		if len(got) == 0 && !c.Follow {
			p.none(s)
			return nil
		}
		for i := range got {
			if err := p.delivery(&got[i]); err != nil {
				return err
			}
		}
		if err := p.flush(); err != nil {
			return err
		}
		if err := c.acknowledge(s, s.client.Settle, got); err != nil {
			return err
		}
	}
	return nil
}

// tryingAgain is what those are told who follow.
const tryingAgain = "trying again"

// follows says whether only a signal ends it.
func (c *consumeCmd) follows() bool { return c.Follow || c.Stream || c.WebSocket }

// passes says whether a receive that failed so may succeed later: the connection broke (what it held comes
// back by itself), or the server said so.
func passes(err error) bool {
	var e *client.Error
	return !errors.As(err, &e) || e.Retryable
}

// acknowledge settles what is printed, also when a signal has come meanwhile.
func (c *consumeCmd) acknowledge(s *session, settle settleFunc, got []client.Delivery) error {
	if !c.Ack || len(got) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.timeout)
	defer cancel()
	request := api.SettleRequest{}
	for i := range got {
		request.Ack = append(request.Ack, got[i].Receipt)
	}
	results, err := settle(ctx, request)
	for c.follows() {
		// Acknowledging again what was acknowledged is harmless, so following does not end here either.
		fault := err
		if i := slices.IndexFunc(results, func(one error) bool { return one != nil && passes(one) }); i >= 0 {
			fault = results[i]
		}
		if fault == nil || !passes(fault) || s.ctx.Err() != nil {
			break
		}
		s.notes.trying(fault, tryingAgain)
		s.wait(time.Second)
		again, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), s.timeout)
		results, err = settle(again, request)
		cancel()
	}
	if err != nil {
		return err
	}
	var failed error
	for i, one := range results {
		if one != nil {
			failed = cmpErr(failed, one)
			fmt.Fprintf(s.err, "%s was printed, but not acknowledged: %v\n", place(got[i].Partition, got[i].Offset), one)
		}
	}
	return partly(failed)
}

// interruptedIsFine: ending --follow with a signal is how it ends.
func interruptedIsFine(s *session, err error) error {
	if s.ctx.Err() != nil {
		return nil
	}
	return err
}

type peekCmd struct {
	Topic     string  `arg:"" help:"Topic."`
	Limit     int     `short:"n" default:"10" help:"Messages at most."`
	Last      bool    `help:"The newest ones, newest first."`
	Partition *uint32 `help:"This partition only."`
	Archived  bool    `name:"include-archived" aliases:"include-deleted" help:"What is in the archive too."`
	From      string  `help:"From an offset (with --partition), a time (RFC 3339), how long ago (2h), earliest or latest."`
	Raw       bool    `help:"Print values alone, a line each."`
}

func (k *peekCmd) Run(s *session) error {
	if err := goodLimit(k.Limit); err != nil {
		return err
	}
	o := client.ReadOptions{Partition: k.Partition, From: readPlace(k.From, time.Now()), Backward: k.Last, Archived: k.Archived, Limit: pageLength(k.Limit)}
	return read(s, s.printer(k.Raw), k.Topic, o, k.Limit)
}

// read prints up to most messages, 0 for no bound.
func read(s *session, p *printer, topic string, o client.ReadOptions, most int) error {
	n := 0
	for m, err := range s.client.Messages(s.ctx, topic, o) {
		if err != nil {
			return errors.Join(p.flush(), interruptedIsFine(s, err))
		}
		if err := p.message(&m); err != nil {
			return err
		}
		if o.Wait > 0 { // somebody is watching
			if err := p.flush(); err != nil {
				return err
			}
		}
		if n++; n == most {
			break
		}
	}
	p.none(s)
	return p.flush()
}
