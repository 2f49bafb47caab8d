package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

type traceCmd struct {
	ID       string `arg:"" help:"Message id."`
	Archived bool   `name:"include-archived" aliases:"include-deleted" help:"Look into the archive too."`
}

func (t *traceCmd) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	ask := s.client.Trace
	if t.Archived {
		ask = s.client.ArchivedTrace
	}
	out, err := ask(ctx, t.ID)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderTrace(&out, s.width, s.painter()) })
}

// renderTrace draws the events along a line, with the time since the first one.
func renderTrace(t *api.Trace, width int, paint painter) string {
	var b strings.Builder
	place := t.State
	if t.Offset != nil {
		place = fmt.Sprintf("offset %d", *t.Offset)
	}
	fmt.Fprintf(&b, "message %s\n%s, partition %d, %s\n", t.ID, t.Topic, t.Partition, place)
	if t.Traceparent != "" {
		fmt.Fprintf(&b, "traceparent %s\n", t.Traceparent)
	}
	if len(t.Events) > 0 {
		first := t.Events[0].At
		fmt.Fprintf(&b, "%s UTC\n\n", stamp(first))
		kinds := 12
		for i := range t.Events {
			kinds = max(kinds, len(t.Events[i].Type))
		}
		for i := range t.Events {
			e := &t.Events[i]
			mark := "│"
			if i == 0 || i == len(t.Events)-1 {
				mark = "●"
			}
			// 9 for the time, 1 for the mark, kinds for the type, 2 between each.
			more := details(e, first)
			if room := width - kinds - 16; width > 0 && e.Type == "RETAINED" { // says under which conditions: that is not cut
				more = strings.ReplaceAll(wrap(more, room), "\n", "\n"+strings.Repeat(" ", kinds+16))
			} else if width > 0 {
				more = cut(more, room)
			}
			kind := paint(styleOf(e.Type), e.Type) + strings.Repeat(" ", kinds-len(e.Type))
			b.WriteString(strings.TrimRight(fmt.Sprintf("%9s  %s  %s  %s", whenOf(e, first), mark, kind, more), " ") + "\n")
		}
	}
	if len(t.Groups) > 0 {
		b.WriteString("\n" + renderTraceGroups(t.Groups, width, paint))
	}
	if text := latencies(&t.Latency); text != "" {
		b.WriteString("\n" + text + "\n")
	}
	return b.String()
}

// whenOf is the time of an event. Of a commit there may be none, or only by when it was: then an entry that came later
// tells of it.
func whenOf(e *api.TraceEvent, first time.Time) string {
	switch {
	case !e.At.IsZero():
		return sinceFirst(e.At.Sub(first))
	case !e.AtLatest.IsZero():
		return "≤" + sinceFirst(e.AtLatest.Sub(first))
	}
	return ""
}

func sinceFirst(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	if d < 0 {
		return span(d)
	}
	return "+" + span(d)
}

// details says who and why, the group first: it is what one looks for. Times are as in the first column.
func details(e *api.TraceEvent, first time.Time) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if e.Group != "" {
		add("%s", e.Group)
	}
	if e.Attempt > 0 {
		add("attempt %d", e.Attempt)
	}
	if e.Consumer != "" {
		add("to %s", e.Consumer)
	}
	if e.Producer != "" {
		add("by %s", e.Producer)
	}
	if e.Gateway != "" {
		add("through %s", e.Gateway)
	}
	if len(e.Replicas) > 0 {
		add("on %s", strings.Join(e.Replicas, " "))
	}
	if e.Quorum > 0 {
		add("quorum %d", e.Quorum)
	}
	if e.Node != "" {
		add("led by %s", e.Node)
	}
	if e.Type == "RETAINED" && !e.Until.IsZero() { // far away, and the first thing that one wants to know
		add("until %s", e.Until.UTC().Format("2006-01-02 15:04"))
	}
	if e.Reason != "" {
		add("%s", e.Reason)
	}
	if !e.Until.IsZero() && e.Type != "RETAINED" {
		word := "until"
		if e.Type == "NACKED" || e.Type == "EXPIRED" {
			word = "again at"
		}
		add("%s %s", word, sinceFirst(e.Until.Sub(first)))
	}
	return oneLine(strings.Join(parts, ", "))
}

func renderTraceGroups(list []api.TraceGroup, width int, paint painter) string {
	t := table{headers: []string{"GROUP", "STATE", ">ATTEMPTS", ">DELIVERED", ">ACKED", "CONSUMER"}}
	for _, g := range list {
		t.rows = append(t.rows, []string{g.Group, g.State, strconv.FormatUint(uint64(g.Attempts), 10), age(g.Delivered),
			age(g.Acknowledged), orDash(oneLine(g.Consumer))})
	}
	return t.render(width, paint)
}

func latencies(l *api.TraceLatency) string {
	var parts []string
	for _, one := range []struct {
		what string
		d    api.Duration
	}{{"committed after", l.Committed}, {"delivered after", l.Delivered}, {"acknowledged after", l.Acknowledged}} {
		if one.d > 1 { // 1 says that it happened, and no more
			parts = append(parts, one.what+" "+span(time.Duration(one.d)))
		}
	}
	return strings.Join(parts, ", ")
}
