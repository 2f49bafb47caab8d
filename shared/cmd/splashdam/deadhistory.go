package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/api"
)

// renderHistories shows each dead letter with a line for each of its attempts.
func renderHistories(list []api.HeldMessage, width int, paint painter) string {
	var b strings.Builder
	for i := range list {
		m := &list[i]
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s  %s  attempts: %d  died: %s UTC\n", place(m.Partition, m.Offset), m.ID, m.Attempt, stamp(m.Until))
		if e := m.HistoryError; e != nil {
			b.WriteString(paint(styleWarn, wrap(oneLine("no history: "+e.Code+": "+e.Detail), width)) + "\n")
			continue
		}
		if m.HistoryLeftOut > 0 {
			fmt.Fprintf(&b, "%d before these; splashdam trace %s shows all\n", m.HistoryLeftOut, m.ID)
		}
		t := table{headers: []string{">TRY", "DELIVERED (UTC)", "BY", ">HELD", "ENDED", "WHY"}}
		for _, a := range m.History {
			t.rows = append(t.rows, historyRow(&a))
		}
		b.WriteString(t.render(width, paint))
	}
	return b.String()
}

func historyRow(a *api.DeadAttempt) []string {
	try, delivered, took := "-", "-", "-"
	if a.Attempt > 0 {
		try = strconv.FormatUint(uint64(a.Attempt), 10)
	}
	if !a.DeliveredAt.IsZero() {
		delivered = a.DeliveredAt.UTC().Format("01-02 15:04:05.000")
		if !a.EndedAt.Before(a.DeliveredAt) { // it has ended; the clocks of two leaders may differ
			took = span(a.EndedAt.Sub(a.DeliveredAt).Round(time.Millisecond))
		}
	} else if !a.EndedAt.IsZero() {
		delivered = "(" + a.EndedAt.UTC().Format("01-02 15:04:05.000") + ")"
	}
	// A webhook's reason says again which attempt it was and whose, and there is little room for why it failed.
	why := strings.Replace(a.Reason, fmt.Sprintf(", attempt %d by %s", a.Attempt, a.Consumer), "", 1)
	return []string{try, delivered, orDash(a.Consumer), took, orDash(a.Result), orDash(oneLine(why))}
}
