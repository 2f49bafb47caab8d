package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mq"
)

type deadCommands struct {
	List    deadList    `cmd:"" help:"List dead letters with their reasons."`
	Redrive deadRedrive `cmd:"" help:"Make dead letters ready again for the group, or publish them to another topic."`
	Delete  deadDelete  `cmd:"" help:"Remove dead letters for good."`
}

// deadTimes is the part of the filter that every command has.
type deadTimes struct {
	Key    *string `help:"Those with this key."`
	Reason *string `help:"Those whose reason has this text."`
	After  past    `help:"Those that died then or later (RFC 3339, or 2h for how long ago)."`
	Before past    `help:"Those that died before then."`
}

type deadFlags struct {
	deadTimes `embed:""`
	ID        []string `name:"id" help:"These messages; may be given several times."`
}

// Validate refuses an empty reason, which is mostly a variable that was not set, before it chooses everything.
func (d *deadTimes) Validate() error {
	if d.Reason != nil && *d.Reason == "" {
		return errors.New("--reason must not be empty: leave it out for any reason")
	}
	return nil
}

func (d *deadTimes) filter() api.DeadFilter {
	f := api.DeadFilter{Key: d.Key, DiedAfter: time.Time(d.After), DiedBefore: time.Time(d.Before)}
	if d.Reason != nil {
		f.Reason = *d.Reason
	}
	return f
}

func (d *deadFlags) filter() api.DeadFilter {
	f := d.deadTimes.filter()
	f.IDs = d.ID
	return f
}

type deadList struct {
	groupName `embed:""`
	deadTimes `embed:""`
	Partition *uint32 `help:"Those of this partition only."`
	Limit     int     `short:"n" default:"100" help:"Messages at most."`
	History   bool    `help:"With what became of each attempt."`
}

func (d *deadList) Run(s *session) error {
	if err := goodLimit(d.Limit); err != nil {
		return err
	}
	list, most, render := s.client.DeadMatching, 1000, renderHeld
	if d.History {
		list, most, render = s.client.DeadHistories, 100, renderHistories
	}
	return held(s, client.Page{Partition: d.Partition}, d.Limit, heldForm{most: most, none: "no dead letters\n", render: render},
		func(p client.Page) (api.HeldList, error) {
			ctx, cancel := s.call()
			defer cancel()
			return list(ctx, d.Topic, d.Group, d.filter(), p)
		})
}

type deadRedrive struct {
	groupName `embed:""`
	deadFlags `embed:""`
	To        string  `placeholder:"TOPIC" help:"Publish them to this topic instead; they leave the group."`
	Rate      float64 `placeholder:"N" help:"Messages a second; default: all at once."`
	Limit     uint64  `short:"n" placeholder:"N" help:"Messages at most; 0: no bound."`
	DryRun    bool    `help:"Say how many it would be and leave them."`
}

func (d *deadRedrive) Run(s *session) error {
	f := d.filter()
	return s.onDead("redriven", d.Limit, d.DryRun || d.Rate > 0, func(limit uint64) (api.DeadResult, error) {
		ctx, cancel := s.call()
		defer cancel()
		return s.client.Redrive(ctx, d.Topic, d.Group, api.RedriveRequest{Filter: &f, Rate: d.Rate, Limit: limit, To: d.To}, d.DryRun)
	})
}

type deadDelete struct {
	groupName `embed:""`
	deadFlags `embed:""`
	Limit     uint64 `short:"n" placeholder:"N" help:"Messages at most; 0: no bound."`
	DryRun    bool   `help:"Say how many it would be and leave them."`
}

func (d *deadDelete) Run(s *session) error {
	f := d.filter()
	return s.onDead("deleted", d.Limit, d.DryRun, func(limit uint64) (api.DeadResult, error) {
		ctx, cancel := s.call()
		defer cancel()
		return s.client.DeleteDead(ctx, d.Topic, d.Group, f, limit, d.DryRun)
	})
}

// onDead repeats a call while there are more dead letters, and tells how far it is; once is for those that can't be
// repeated.
func (s *session) onDead(did string, limit uint64, once bool, call func(limit uint64) (api.DeadResult, error)) error {
	var sum api.DeadResult
	for {
		left := limit
		if limit > 0 {
			left -= sum.Messages
		}
		got, err := call(left)
		if err != nil {
			if sum.Messages > 0 {
				fmt.Fprintf(s.err, "%d were %s before that\n", sum.Messages, did)
			}
			return err
		}
		addDead(&sum, &got)
		if once || !got.More || got.Partial || limit > 0 && sum.Messages >= limit || s.ctx.Err() != nil {
			break
		}
		fmt.Fprintf(s.err, "%d %s, going on\n", sum.Messages, did)
	}
	if err := s.show(sum, func() string { return renderDead(&sum, did) }); err != nil {
		return err
	}
	var failed error
	for _, p := range sum.Partitions {
		if p.Error != nil {
			failed = cmpErr(failed, &client.Error{Code: p.Error.Code, Detail: p.Error.Detail, Retryable: p.Error.Retryable})
			fmt.Fprintf(s.err, "partition %d: %s: %s\n", p.Partition, p.Error.Code, p.Error.Detail)
		}
	}
	return partly(failed)
}

// addDead adds what one call did to what the calls before did.
func addDead(sum, got *api.DeadResult) {
	before := *sum
	*sum = *got
	sum.Messages += before.Messages
	for _, p := range before.Partitions {
		found := false
		for i := range sum.Partitions {
			if sum.Partitions[i].Partition == p.Partition {
				sum.Partitions[i].Messages += p.Messages
				found = true
			}
		}
		if !found {
			sum.Partitions = append(sum.Partitions, p)
		}
	}
}

func renderDead(r *api.DeadResult, did string) string {
	var b strings.Builder
	if r.DryRun {
		did = "would be " + did
	}
	fmt.Fprintf(&b, "%d dead letters %s", r.Messages, did)
	if r.To != "" {
		fmt.Fprintf(&b, " to topic %s", r.To)
	}
	if !r.ReadyBy.IsZero() {
		fmt.Fprintf(&b, ", the last one ready at %s UTC", stamp(r.ReadyBy))
	}
	if r.More {
		b.WriteString("; there may be more")
	}
	b.WriteByte('\n')
	for _, p := range r.Partitions {
		if p.Messages > 0 {
			fmt.Fprintf(&b, "  partition %d: %d\n", p.Partition, p.Messages)
		}
	}
	return b.String()
}

// fatesOf is how many messages were settled in which way; those that never happened are left out.
func fatesOf(g *api.Group) (rows [][2]string) {
	for _, f := range []struct {
		name  string
		n     uint64
		about string
	}{{"acked", g.Acked, ""}, {"expired", g.Expired, " past their TTL"}, {"filtered", g.Filtered, " by the group's filter"},
		{"dropped", g.Dropped, " by retention, not settled"}, {"discarded", g.Discarded, " dead letters"}} {
		if f.n > 0 {
			rows = append(rows, [2]string{f.name, count(f.n) + f.about})
		}
	}
	return rows
}

// exportText says how many dead letters were published to the dead letter topic, if there is one.
func exportText(g *api.Group) string {
	if g.Settings.DeadLetterTopic == "" {
		return ""
	}
	return fmt.Sprintf(" (%d published to %s)", g.Exported, g.Settings.DeadLetterTopic)
}

func limitsText(l mq.DeadLimits) string {
	var parts []string
	if l.MaxCount > 0 {
		parts = append(parts, fmt.Sprintf("at most %d per partition", l.MaxCount))
	}
	if l.MaxAge > 0 {
		parts = append(parts, fmt.Sprintf("for at most %s", l.MaxAge))
	}
	if l.MaxBytes > 0 {
		parts = append(parts, fmt.Sprintf("at most %d bytes per partition", l.MaxBytes))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (kept: " + strings.Join(parts, ", ") + ")"
}
