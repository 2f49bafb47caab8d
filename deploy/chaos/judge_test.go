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
)

// judge ends the traffic, reads everything, restarts everything, reads it again, and prints what there is to say.
func (r *rig) judge(ctx context.Context) {
	ran := time.Since(r.start)
	var all []*verdict
	for _, tr := range r.loads() {
		tr.gaps.begin("end")
		tr.stopProducing()
	}
	for _, tr := range r.loads() {
		all = append(all, r.ended(ctx, tr))
	}
	if err := killEverything(r, ctx); err != nil {
		r.t.Errorf("the last restart: %v", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, -chaos-seed %d, faults:\n", strings.TrimPrefix(r.t.Name(), "Test"), ran.Round(time.Second), r.seed)
	for _, name := range slices.Sorted(maps.Keys(r.counts)) {
		fmt.Fprintf(&b, "  %3d %-26s longest write gap %s\n", r.counts[name], name, r.traffic.gaps.byFault()[name].length.Round(time.Millisecond))
	}
	for _, v := range all {
		v.again(ctx, r)
		v.summary(&b)
	}
	fmt.Fprintf(&b, "longest write gap %s, partitions that the end of the coordinators met between two segments: %d\n", r.longest(), r.between)
	for _, line := range r.alarms() {
		fmt.Fprintln(&b, line)
	}
	r.t.Log(b.String())
	for _, v := range all {
		v.fail(r.t)
	}
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
