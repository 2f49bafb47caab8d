package chaos

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/client"
)

// drainWait is longer than a lease, so that what was under way when its consumer was cut off comes back.
const drainWait = 3*lease + time.Minute

// judge ends the traffic, reads everything, restarts everything, reads it again, and prints what there is to say.
func (r *rig) judge(ctx context.Context) {
	ran := time.Since(r.start)
	r.traffic.gaps.begin("end")
	left := r.traffic.drain(ctx, drainWait)
	stuck := ""
	if left > 0 {
		stuck = r.stuck(ctx, group)
	}
	behind := ""
	for _, g := range append([]string{group}, r.traffic.mixed...) {
		behind += r.drained(ctx, g)
	}
	r.traffic.stopConsuming()
	r.traffic.consumers.Wait()
	report := r.traffic.check.Finish()
	r.traffic.finish()
	if s := r.traffic.streams; s != nil {
		behind += r.exported(ctx, s)
	}
	first := r.read(ctx, "at the end")
	if err := killEverything(r, ctx); err != nil {
		r.t.Errorf("the last restart: %v", err)
	}
	second := r.read(ctx, "after a last restart of everything")
	r.traffic.compare(first.places)
	if first.read != second.read {
		r.t.Errorf("%d messages were read, and %d after a restart of everything", first.read, second.read)
	}

	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, -chaos-seed %d, faults:\n", strings.TrimPrefix(r.t.Name(), "Test"), ran.Round(time.Second), r.seed)
	for _, name := range slices.Sorted(maps.Keys(r.counts)) {
		fmt.Fprintf(&b, "  %3d %-26s longest write gap %s\n", r.counts[name], name, r.traffic.gaps.byFault()[name].length.Round(time.Millisecond))
	}
	fmt.Fprintf(&b, "acknowledged %d, refused %d, unknown outcome %d, read back %d\n", report.Stored, report.Refused, report.Unknown, first.read)
	fmt.Fprintf(&b, "lost %d, phantom %d, damaged %d, offsets with two values %d, came back after ack %d, keys out of order %d\n",
		report.Lost+first.lost+second.lost, report.Phantom+first.phantom+second.phantom, report.Damaged,
		report.TwoValues+first.twoValues+second.twoValues, report.CameBack, report.OutOfOrder+report.KeyMoved)
	fmt.Fprintf(&b, "delivered %d, redelivered %d, stored twice after an unknown outcome %d, acked %d, not acked at the end %d\n",
		report.Delivered, report.Redelivered, report.Copies, report.Acked, left)
	fmt.Fprintf(&b, "known again by their idempotency keys: %d\n", r.traffic.duplicates.Load())
	fmt.Fprintf(&b, "ordered by key: %s\nwith members: %s\n", r.traffic.order, r.traffic.assigned)
	fmt.Fprintf(&b, "rejecting: %s, %d rejected, %d redriven\n", &r.traffic.rejected.coverage, r.traffic.rejected.rejects, r.traffic.rejected.moved)
	fmt.Fprintf(&b, "with times: %s\n", r.traffic.timed)
	if s := r.traffic.streams; s != nil {
		fmt.Fprint(&b, s)
	}
	fmt.Fprintf(&b, "longest write gap %s\n", r.longest())
	fmt.Fprintf(&b, "errors that clients saw: %v\n", r.traffic.errors)
	for _, line := range r.alarms() {
		fmt.Fprintln(&b, line)
	}
	r.t.Log(b.String())
	if n := report.Violations(); n > 0 {
		r.t.Errorf("%d promises were broken: %s", n, strings.Join(report.Examples, "; "))
	}
	if r.traffic.broken > 0 {
		r.t.Errorf("%d promises of groups, keys and times were broken: %s", r.traffic.broken, strings.Join(r.traffic.examples, "; "))
	}
	if behind != "" {
		r.t.Errorf("groups were still behind %s later: %s", drainWait, behind)
	}
	if left > 0 {
		r.t.Errorf("%d messages were not acknowledged %s after the last publish: %s", left, drainWait, stuck)
	}
	if r.traffic.full.Load() {
		r.t.Error("the checker's bound was reached: a shorter run")
	}
}

// drained waits until a group has settled everything and nothing waits for its time, and says what is left at the end.
func (r *rig) drained(ctx context.Context, group string) string {
	wait, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	for wait.Err() == nil {
		g, err := r.any.Group(wait, r.traffic.topic, group)
		dead := g.Dead
		if g.Settings.DeadLetterTopic != "" {
			dead -= g.Exported
		}
		if err == nil && !g.Partial && g.Lag == 0 && dead == 0 && g.Scheduled == 0 {
			return ""
		}
		pause(wait, 100*time.Millisecond)
	}
	return group + ": " + r.stuck(ctx, group)
}

// stuck says where the messages are that nobody acknowledged.
func (r *rig) stuck(ctx context.Context, group string) string {
	var b strings.Builder
	if g, err := r.any.Group(ctx, r.traffic.topic, group); err == nil {
		for _, p := range g.Partitions {
			fmt.Fprintf(&b, "partition %d: lag %d, ready %d, leased %d, waiting %d; ", p.Partition, p.Lag, p.Ready, p.InFlight, p.Waiting)
		}
	}
	for _, state := range []string{"ready", "leased", "waiting", "dead"} {
		held, err := r.any.GroupMessages(ctx, r.traffic.topic, group, state, client.Page{Limit: 10})
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
func (r *rig) exported(ctx context.Context, s *streams) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	g, err := r.any.Group(ctx, r.traffic.topic, exportGroup)
	if err == nil {
		err = s.exported.audit(ctx, r.any, r.traffic.topic, g.Dead)
	}
	if err != nil {
		return fmt.Sprintf("%s: %v; ", exportGroup, err)
	}
	return ""
}

func (r *rig) read(ctx context.Context, when string) audit {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, err := r.traffic.ledger.readAll(ctx, r.any, r.traffic, partitions)
	if err == nil {
		r.traffic.timed.finish()
	}
	if err != nil {
		r.t.Errorf("%s: %v", when, err)
	} else if a.bad() > 0 {
		r.t.Errorf("%s: %s", when, strings.Join(a.examples, "; "))
	}
	return a
}

func (r *rig) longest() time.Duration {
	var most time.Duration
	for _, g := range r.traffic.gaps.byFault() {
		most = max(most, g.length)
	}
	return most.Round(time.Millisecond)
}

var (
	message = regexp.MustCompile(`msg=("[^"]*"|\S+)`)
	// fatal are lines that no fault excuses.
	fatal = regexp.MustCompile(`an invariant is broken|^panic:|^fatal error:|DATA RACE`)
)

// excused says that a process may have died in pain: the victim, of its full disk.
func (r *rig) excused(log string) bool {
	return r.counts[diedFull] > 0 && filepath.Base(log) == r.cluster.Node(r.victim).Name()+".log"
}

// alarms counts the errors in the logs of all processes, and fails the test for those that no fault excuses.
func (r *rig) alarms() (lines []string) {
	logs, _ := filepath.Glob(filepath.Join(r.dir, "*.log"))
	for _, name := range logs {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		counts := map[string]int{}
		scan := bufio.NewScanner(f)
		scan.Buffer(nil, 1<<20)
		for scan.Scan() {
			line := scan.Text()
			if fatal.MatchString(line) && !r.excused(name) {
				r.t.Errorf("%s: %s", filepath.Base(name), line)
			}
			if strings.Contains(line, "level=ERROR") {
				counts[message.FindString(line)]++
			}
		}
		f.Close()
		for _, m := range slices.Sorted(maps.Keys(counts)) {
			lines = append(lines, fmt.Sprintf("  %s: %d times %s", filepath.Base(name), counts[m], m))
		}
	}
	return lines
}
