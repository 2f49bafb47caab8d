package load

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Linux reports CPU time in these units per second on every platform that Go runs on.
const ticksPerSecond = 100

// cpuTime is the CPU time that processes have used so far.
func cpuTime(pids []int) (time.Duration, error) {
	var ticks int64
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		n, err := parseStat(string(text))
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// parseStat adds user and system time, the 14th and 15th fields. The second one is a name in parentheses
// that may hold anything, so fields are counted from the last parenthesis.
func parseStat(text string) (int64, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q is no stat line", text)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return user + system, err
}

// measureCPU waits for the window and returns the cores that the processes used in it; 0 without any.
func measureCPU(ctx context.Context, pids []int, w window) (float64, error) {
	if len(pids) == 0 {
		return 0, nil
	}
	pause(ctx, time.Until(w.from))
	before, err := cpuTime(pids)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	pause(ctx, time.Until(w.to))
	after, err := cpuTime(pids)
	if err != nil {
		return 0, err
	}
	return (after - before).Seconds() / time.Since(began).Seconds(), nil
}
