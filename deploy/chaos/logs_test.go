package chaos

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
)

// alarms are what no log may hold, whatever was done to the processes: a race that the detector saw (with
// `go test -race` the processes have it too, as they are the test binary), a panic, an invariant that broke. A memory
// fault is none: a disk that others filled to the last byte ends a process that way (museum 35), and whatever faults
// without a full disk is counted by the rig, which expects no process to end by itself.
var alarms = []string{"WARNING: DATA RACE", "panic: ", "fatal error: all goroutines", "fatal error: concurrent", "an invariant is broken"}

// readLogs looks for alarms in the logs of all processes. Call it when the load is over.
func (r *rig) readLogs() {
	names, err := filepath.Glob(filepath.Join(r.dir, "*.log"))
	if err != nil || len(names) == 0 {
		r.t.Errorf("no logs in %s: %v", r.dir, err)
	}
	for _, name := range names {
		if err := r.readLog(name); err != nil {
			r.t.Errorf("%s: %v", name, err)
		}
	}
}

func (r *rig) readLog(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		for _, alarm := range alarms {
			if strings.Contains(lines.Text(), alarm) {
				r.t.Errorf("%s:%d: %.300s", name, n, lines.Text())
			}
		}
	}
	return lines.Err()
}
