package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/splashdam/splashdam/deploy/cluster"
)

// chains is what the nodes' logs say of segments: the newest of each partition that some node heard it leads, and which were
// sealed on some node.
type chains struct {
	led    map[string]string // segments by partition ("1/0")
	number map[string]int    // of the segment, to know the newest
	sealed map[string]bool
}

var (
	leadingLine = regexp.MustCompile(`msg=leading .*partition=(\S+) segment=(\d+)`)
	sealedLine  = regexp.MustCompile(`msg=sealed .*segments="?\[([\d ]+)\]`)
)

func (c *chains) read(log io.Reader) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := leadingLine.FindStringSubmatch(lines.Text()); m != nil {
			var id int
			_, _ = fmt.Sscan(m[2], &id)
			if id > c.number[m[1]] {
				c.led[m[1]], c.number[m[1]] = m[2], id
			}
		} else if m := sealedLine.FindStringSubmatch(lines.Text()); m != nil {
			for _, id := range strings.Fields(m[1]) {
				c.sealed[id] = true
			}
		}
	}
	return lines.Err()
}

// between says whether a partition is between two segments: the newest that anybody leads is sealed, and nobody heard of the next
// one. Without a coordinator it stays so: only etcd may name a leader.
func (c *chains) between(partition string) bool { return c.sealed[c.led[partition]] }

func newChains() *chains {
	return &chains{led: map[string]string{}, number: map[string]int{}, sealed: map[string]bool{}}
}

// without judges the partitions while no coordinator runs: each acknowledged something since before, but for those that the end of the
// coordinators met between two segments.
func (r *rig) without(before []int) error {
	c := newChains()
	for i := 1; i <= nodes; i++ {
		f, err := os.Open(filepath.Join(r.dir, r.cluster.Node(i).Name()+".log"))
		if err == nil {
			err = errors.Join(c.read(f), f.Close())
		}
		if err != nil {
			return err
		}
	}
	now := r.traffic.gaps.counts()
	for p := range now {
		name := fmt.Sprintf("1/%d", p) // the rig's first topic
		switch {
		case now[p] > before[p]:
		case c.between(name):
			r.between++
			r.say("partition %d was between two segments: %s was sealed", p, c.led[name])
		default:
			return fmt.Errorf("partition %d, whose segment %s is open, acknowledged nothing while the coordinators were away: %v, then %v",
				p, c.led[name], before, now)
		}
	}
	return nil
}

// coordinatorsDown takes all of them away. Open segments go on without them.
func coordinatorsDown(r *rig, ctx context.Context) error {
	away := 5*time.Second + 2*r.absence()
	r.say("kill -9 all coordinators for %s", away.Round(time.Millisecond))
	return r.uncoordinated(ctx, away, func(all []*cluster.Member) error {
		for _, m := range all {
			if err := m.Kill(); err != nil {
				return err
			}
		}
		return nil
	})
}

// coordinatorsDownMoving takes them away while leaders move.
func coordinatorsDownMoving(r *rig, ctx context.Context) error {
	return r.uncoordinatedMoving(ctx, "kill -9", killTogether)
}

// stopCoordinators stops them in order while leaders move: what they have begun they finish, so nothing is between two segments.
func stopCoordinators(r *rig, ctx context.Context) error {
	had := r.between
	err := r.uncoordinatedMoving(ctx, "stop", func(all []*cluster.Member) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return together(all, func(m *cluster.Member) error { return m.Stop(ctx) })
	})
	if err == nil && r.between > had {
		err = errors.New("coordinators that were stopped in order left a partition between two segments")
	}
	return err
}

// uncoordinatedMoving ends all coordinators a moment after a node's leaders were asked to move.
func (r *rig) uncoordinatedMoving(ctx context.Context, verb string, end func([]*cluster.Member) error) error {
	m, delay, away := r.leading(ctx), r.absence()/50, 3*time.Second+r.absence()
	r.say("%s all coordinators for %s, %s after all leaders were asked to leave %s", verb, away.Round(time.Millisecond),
		delay.Round(time.Millisecond), m.Name())
	moving, cancel := context.WithCancel(ctx)
	defer cancel()
	var asked sync.WaitGroup
	defer asked.Wait()
	asked.Go(func() { _ = r.moveAll(moving, m) }) // it may fail, or not be over
	pause(ctx, delay)
	return r.uncoordinated(ctx, away, func(all []*cluster.Member) error {
		defer cancel()
		return end(all)
	})
}

// uncoordinated ends all coordinators, judges, and starts them again.
func (r *rig) uncoordinated(ctx context.Context, away time.Duration, end func([]*cluster.Member) error) error {
	all := r.tier(r.coordinators, r.cluster.Coordinator)
	if err := end(all); err != nil {
		return err
	}
	before := r.traffic.gaps.counts()
	pause(ctx, away)
	return errors.Join(r.without(before), r.startTogether(ctx, all))
}

// TestBetweenJudge: only who is sealed and has no next leader is excused.
func TestBetweenJudge(t *testing.T) {
	c := newChains()
	for _, log := range []string{`time=T level=INFO msg=leading node=node-1 partition=1/0 segment=1 base=0.0
time=T level=INFO msg=leading node=node-1 partition=1/1 segment=2 base=0.0
time=T level=INFO msg=leading node=node-1 partition=1/2 segment=3 base=0.0
time=T level=INFO msg=sealed node=node-1 segments="[1 2]" reason=moving
`, `time=T level=INFO msg=sealed node=node-2 segments=[1] reason=moving
time=T level=INFO msg=leading node=node-2 partition=1/1 segment=12 base=7.0
time=T level=INFO msg=serving node=node-2 partition=1/1 segment=12 after=3ms
`} {
		if err := c.read(strings.NewReader(log)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, p := range []string{"1/0", "1/1", "1/2", "1/3"} {
		if c.between(p) {
			got = append(got, p)
		}
	}
	if !slices.Equal(got, []string{"1/0"}) {
		t.Errorf("between two segments: %v; 1/0 is sealed, 1/1 has a next leader, 1/2 is open, nothing is known of 1/3", got)
	}
}
