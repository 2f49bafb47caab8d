package wallclock

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestMain lets the test binary be the process whose clock is wrong: it says the time for each line that it is given.
func TestMain(m *testing.M) {
	if len(os.Args) != 2 || filepath.Ext(os.Args[1]) != ".json" {
		os.Exit(m.Run())
	}
	began := time.Now()
	if err := FollowChild(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), int64(now.Sub(began)))
	}
}

// A process is off by what is set, at once, each time it is set; what it measures is not.
func TestClockOfAProcess(t *testing.T) {
	dir := t.TempDir()
	file := Of(dir, "node-1")
	set := func(by time.Duration) {
		if err := Set(file, by); err != nil {
			t.Fatal(err)
		}
	}
	set(0)
	child := exec.Command(os.Args[0], filepath.Join(dir, "node-1.json"))
	ask, err1 := child.StdinPipe()
	told, err2 := child.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	child.Stderr = t.Output()
	before := time.Now()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for _, by := range []time.Duration{0, time.Hour, -time.Hour, 1500 * time.Millisecond, -999_999_999, 0} {
		set(by)
		asked := time.Now()
		if _, err := io.WriteString(ask, "\n"); err != nil {
			t.Fatal(err)
		}
		var now, since int64
		if _, err := fmt.Fscanln(told, &now, &since); err != nil {
			t.Fatal(err)
		}
		answered := time.Now()
		if got := time.Unix(0, now).Add(-by); got.Before(asked.Round(0)) || got.After(answered.Round(0)) {
			t.Errorf("set to %s it says %s; asked at %s, answered at %s", by, time.Unix(0, now), asked, answered)
		}
		if d := time.Duration(since); d < 0 || d > answered.Sub(before) {
			t.Errorf("set to %s it measures that it runs for %s, of %s", by, d, answered.Sub(before))
		}
	}
	if err := ask.Close(); err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}

// Who has no such file keeps the right clock.
func TestNoFileNoChange(t *testing.T) {
	if err := FollowChild([]string{"splashdam-child", "node", filepath.Join(t.TempDir(), "node-1.json")}); err != nil || ahead != nil {
		t.Errorf("%v, %v", err, ahead)
	}
}
