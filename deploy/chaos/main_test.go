package chaos

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/splashdam/splashdam/deploy/cluster"
	"github.com/splashdam/splashdam/deploy/wallclock"
)

// flags of the test binary; they are registered before it parses its command line.
var flags = struct {
	chaos     *time.Duration
	seed      *uint64
	only      *string
	keep      *bool
	failovers *int
	chain     *int
}{
	flag.Duration("chaos", 0, "how long faults go on; 0: a smoke of four faults"),
	flag.Uint64("chaos-seed", 0, "seed of the faults; 0: a random one, which is printed"),
	flag.String("chaos-only", "", "kinds of faults or failovers, separated by commas; empty: all"),
	flag.Bool("chaos-keep", false, "keep the data and logs of a run that ended well too"),
	flag.Int("failovers", 0, "failovers of each kind to measure"),
	flag.Int("failovers-chain", 0, "how often every leader is moved before failovers are measured"),
}

// smokesTogether runs a test beside the others if it is a smoke: it waits for most of its time. A long run has the machine alone.
func smokesTogether(t *testing.T) {
	if *flags.chaos == 0 {
		t.Parallel()
	}
}

// TestMain lets the test binary be each process of the cluster.
func TestMain(m *testing.M) {
	err := wallclock.FollowChild(os.Args[1:])
	child := false
	if err == nil {
		child, err = cluster.RunChild(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	if !child {
		os.Exit(m.Run())
	}
}
