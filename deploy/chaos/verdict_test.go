package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/loadtest/checker"
	"github.com/splashdam/splashdam/shared/client"
)

// drainWait is longer than a lease, so that what was under way when its consumer was cut off comes back.
const drainWait = 3*lease + time.Minute

// verdict is what is found about one load.
type verdict struct {
	tr            *traffic
	report        checker.Report
	left          int    // messages that nobody acknowledged
	stuck, behind string // where they are, and what is left in other groups
	first, second audit
}

// ended waits until a load is consumed, ends it, and reads what the journals hold.
func (r *rig) ended(ctx context.Context, tr *traffic) *verdict {
	v := &verdict{tr: tr, left: tr.drain(ctx, drainWait)}
	if v.left > 0 {
		v.stuck = r.stuck(ctx, tr.topic, group)
	}
	for _, g := range append([]string{group}, tr.mixed...) {
		v.behind += r.drained(ctx, tr.topic, g)
	}
	tr.stopConsuming()
	tr.consumers.Wait()
	v.report = tr.check.Finish()
	tr.finish()
	if s := tr.streams; s != nil {
		v.behind += r.exported(ctx, tr.topic, s)
	}
	v.first = r.read(ctx, tr, "at the end")
	return v
}

// again reads everything once more, after a restart.
func (v *verdict) again(ctx context.Context, r *rig) {
	v.second = r.read(ctx, v.tr, "after a last restart of everything")
	v.tr.compare(v.first.places)
	if v.first.read != v.second.read {
		r.t.Errorf("%s: %d messages were read, and %d after a restart of everything", v.tr.topic, v.first.read, v.second.read)
	}
}

// summary says what was found.
func (v *verdict) summary(b *strings.Builder) {
	tr, report := v.tr, &v.report
	fmt.Fprintf(b, "topic %s: acknowledged %d, refused %d, unknown outcome %d, read back %d\n", tr.topic, report.Stored, report.Refused, report.Unknown, v.first.read)
	fmt.Fprintf(b, "lost %d, phantom %d, damaged %d, offsets with two values %d, came back after ack %d, keys out of order %d\n",
		report.Lost+v.first.lost+v.second.lost, report.Phantom+v.first.phantom+v.second.phantom, report.Damaged,
		report.TwoValues+v.first.twoValues+v.second.twoValues, report.CameBack, report.OutOfOrder+report.KeyMoved)
	fmt.Fprintf(b, "delivered %d, redelivered %d, stored twice after an unknown outcome %d, acked %d, not acked at the end %d\n",
		report.Delivered, report.Redelivered, report.Copies, report.Acked, v.left)
	fmt.Fprintf(b, "known again by their idempotency keys: %d\n", tr.duplicates.Load())
	if tr.isMixed {
		fmt.Fprintf(b, "ordered by key: %s\nwith members: %s\n", tr.order, tr.assigned)
		fmt.Fprintf(b, "rejecting: %s, %d rejected, %d redriven\n", &tr.rejected.coverage, tr.rejected.rejects, tr.rejected.moved)
		fmt.Fprintf(b, "with times: %s\n", tr.timed)
	}
	if tr.streams != nil {
		fmt.Fprint(b, tr.streams)
	}
	fmt.Fprintf(b, "errors that clients saw: %v\n", tr.errors)
}

// fail fails the test for each promise that was broken.
func (v *verdict) fail(t *testing.T) {
	if n := v.report.Violations(); n > 0 {
		t.Errorf("%s: %d promises were broken: %s", v.tr.topic, n, strings.Join(v.report.Examples, "; "))
	}
	if v.tr.broken > 0 {
		t.Errorf("%s: %d promises of groups, keys and times were broken: %s", v.tr.topic, v.tr.broken, strings.Join(v.tr.examples, "; "))
	}
	if v.behind != "" {
		t.Errorf("%s: groups were still behind %s later: %s", v.tr.topic, drainWait, v.behind)
	}
	if v.left > 0 {
		t.Errorf("%s: %d messages were not acknowledged %s after the last publish: %s", v.tr.topic, v.left, drainWait, v.stuck)
	}
	if v.tr.full.Load() {
		t.Errorf("%s: the checker's bound was reached: a shorter run", v.tr.topic)
	}
}

// drained waits until a group has settled everything and nothing waits for its time, and says what is left at the end.
func (r *rig) drained(ctx context.Context, topic, group string) string {
	wait, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	for wait.Err() == nil {
		g, err := r.any.Group(wait, topic, group)
		dead := g.Dead
		if g.Settings.DeadLetterTopic != "" {
			dead -= g.Exported
		}
		if err == nil && !g.Partial && g.Lag == 0 && dead == 0 && g.Scheduled == 0 {
			return ""
		}
		pause(wait, 100*time.Millisecond)
	}
	return group + ": " + r.stuck(ctx, topic, group)
}

// stuck says where the messages are that nobody acknowledged.
func (r *rig) stuck(ctx context.Context, topic, group string) string {
	var b strings.Builder
	if g, err := r.any.Group(ctx, topic, group); err == nil {
		for _, p := range g.Partitions {
			fmt.Fprintf(&b, "partition %d: lag %d, ready %d, leased %d, waiting %d; ", p.Partition, p.Lag, p.Ready, p.InFlight, p.Waiting)
		}
	}
	for _, state := range []string{"ready", "leased", "waiting", "dead"} {
		held, err := r.any.GroupMessages(ctx, topic, group, state, client.Page{Limit: 10})
		for _, m := range held.Messages {
			fmt.Fprintf(&b, "%s %d/%d attempt %d %s; ", state, m.Partition, m.Offset, m.Attempt, m.Reason)
		}
		if err != nil {
			fmt.Fprintf(&b, "%s: %v; ", state, err)
		}
	}
	return b.String()
}

// exported judges the copies of dead letters, and says why it could not.
func (r *rig) exported(ctx context.Context, topic string, s *streams) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	g, err := r.any.Group(ctx, topic, exportGroup)
	if err == nil {
		err = s.exported.audit(ctx, r.any, topic, g.Dead)
	}
	if err != nil {
		return fmt.Sprintf("%s: %v; ", exportGroup, err)
	}
	return ""
}

func (r *rig) read(ctx context.Context, tr *traffic, when string) audit {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, err := tr.ledger.readAll(ctx, r.any, tr, len(tr.gaps.counts()))
	if err == nil {
		tr.timed.finish()
	}
	if err != nil {
		r.t.Errorf("%s, %s: %v", tr.topic, when, err)
	} else if a.bad() > 0 {
		r.t.Errorf("%s, %s: %s", tr.topic, when, strings.Join(a.examples, "; "))
	}
	return a
}
