package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

type scheduledCommands struct {
	List   scheduledList   `cmd:"" help:"List the messages of a topic that wait for their time."`
	Cancel scheduledCancel `cmd:"" help:"Make messages never delivered."`
	Retime scheduledRetime `cmd:"" help:"Deliver messages at another time."`
	Now    scheduledNow    `cmd:"" help:"Deliver messages now."`
}

type scheduledList struct {
	Topic     string  `arg:"" help:"Topic."`
	Limit     int     `short:"n" default:"100" help:"Messages at most."`
	Partition *uint32 `help:"Those of this partition only."`
}

func (l *scheduledList) Run(s *session) error {
	if err := goodLimit(l.Limit); err != nil {
		return err
	}
	var all api.ScheduledList
	for page := (client.Page{Partition: l.Partition}); len(all.Scheduled) < l.Limit; {
		page.Limit = min(l.Limit-len(all.Scheduled), 1000)
		ctx, cancel := s.call()
		out, err := s.client.Scheduled(ctx, l.Topic, page)
		cancel()
		if err != nil {
			return err
		}
		all.Scheduled = append(all.Scheduled, out.Scheduled...)
		if page.Cursor, all.NextCursor = out.NextCursor, out.NextCursor; page.Cursor == "" {
			break
		}
	}
	return s.show(all, func() string { return renderScheduled(&all, time.Now(), s.width, s.painter()) })
}

func renderScheduled(list *api.ScheduledList, now time.Time, width int, paint painter) string {
	if len(list.Scheduled) == 0 && list.NextCursor == "" {
		return "no scheduled messages\n"
	}
	t := table{headers: []string{"ID", ">PARTITION", "DUE (UTC)", ">IN"}}
	for _, m := range list.Scheduled {
		in := "now"
		if d := m.DeliverAt.Sub(now); d > 0 {
			in = span(d)
		}
		t.rows = append(t.rows, []string{m.ID, fmt.Sprint(m.Partition), stamp(m.DeliverAt), in})
	}
	out := t.render(width, paint)
	if list.NextCursor != "" {
		out += "There are more; ask for them with --limit.\n"
	}
	return out
}

// eachScheduled changes one message after the other, tells the ones that are refused, goes on, and shows what became of the
// others. A server that can't be asked ends it: it would be waited for once for each that is left.
func eachScheduled(s *session, ids []string, change func(id string) (api.Scheduled, error)) error {
	done := []api.Scheduled{}
	var failed error
	for _, id := range ids {
		out, err := change(id)
		if err == nil {
			done = append(done, out)
			continue
		}
		if len(ids) == 1 {
			return err
		}
		failed = cmpErr(failed, err)
		fmt.Fprintf(s.err, "%s: %v\n", id, err)
		var e *client.Error
		if !errors.As(err, &e) || e.Retryable {
			break
		}
	}
	shown := s.show(done, func() string {
		var b strings.Builder
		for _, d := range done {
			switch {
			case d.State == api.StateCancelled:
				fmt.Fprintf(&b, "%s  cancelled\n", d.ID)
			case d.DryRun:
				fmt.Fprintf(&b, "%s  would be cancelled, is due at %s\n", d.ID, stamp(d.DeliverAt))
			default:
				fmt.Fprintf(&b, "%s  due at %s\n", d.ID, stamp(d.DeliverAt))
			}
		}
		return b.String()
	})
	return errors.Join(partly(failed), shown)
}

type scheduledCancel struct {
	ID     []string `arg:"" help:"Message ids."`
	DryRun bool     `help:"Say whether they could be and leave them."`
}

func (c *scheduledCancel) Run(s *session) error {
	return eachScheduled(s, c.ID, func(id string) (api.Scheduled, error) {
		ctx, cancel := s.call()
		defer cancel()
		return s.client.CancelScheduled(ctx, id, c.DryRun)
	})
}

type scheduledRetime struct {
	ID    []string       `arg:"" help:"Message ids."`
	At    time.Time      `xor:"time" help:"When (RFC 3339: 2026-12-24T18:00:00Z)."`
	Delay *time.Duration `xor:"time" help:"Or in how long from now (10m)."`
}

func (r *scheduledRetime) Run(s *session) error {
	if r.At.IsZero() && r.Delay == nil {
		return wrongUsage("give --at or --delay")
	}
	return eachScheduled(s, r.ID, func(id string) (api.Scheduled, error) {
		ctx, cancel := s.call()
		defer cancel()
		if r.Delay != nil {
			return s.client.DelayScheduled(ctx, id, *r.Delay)
		}
		return s.client.RetimeScheduled(ctx, id, r.At)
	})
}

type scheduledNow struct {
	ID []string `arg:"" help:"Message ids."`
}

func (n *scheduledNow) Run(s *session) error {
	return eachScheduled(s, n.ID, func(id string) (api.Scheduled, error) {
		ctx, cancel := s.call()
		defer cancel()
		return s.client.DelayScheduled(ctx, id, 0)
	})
}
