package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	lognode "github.com/splashdam/splashdam/lognode/simulate"
	"github.com/splashdam/splashdam/shared/mq"
)

// What clients use beside publishes and plain groups. Each seed has some of it.
const (
	useLanes = "lanes"
	useOrder = "order by key"
	useTimes = "schedules"
	useFew   = "few attempts"
	useTTL   = "ttl"
	// useEndless is for runs in which so many answers may be lost on the way that a message would be dead before anybody saw it. No seed
	// has it by itself.
	useEndless = "endless attempts"
)

var uses = []string{useLanes, useOrder, useTimes, useFew, useTTL}

// features is what the clients of a run use. It is drawn from a source of its own: what a seed does beside stays what it is.
type features struct {
	rng  *rand.Rand
	has  map[string]bool
	keys int // how many keys there are
}

func newFeatures(seed uint64, only []string) *features {
	f := &features{rng: rand.New(rand.NewPCG(seed, 0xfea7)), has: map[string]bool{}}
	for _, name := range uses {
		f.has[name] = f.chance(50)
		if only != nil {
			f.has[name] = slices.Contains(only, name)
		}
	}
	f.has[useEndless] = slices.Contains(only, useEndless)
	f.keys = 3 + f.rng.IntN(20)
	return f
}

func (f *features) chance(percent int) bool { return f.rng.IntN(100) < percent }

func (f *features) between(low, high int64) int64 { return low + f.rng.Int64N(high-low+1) }

// groups are one without a limit of attempts and one with.
func (f *features) groups() []lognode.GroupConfig {
	g := mq.DefaultGroupSettings()
	g.Lease = mq.Duration(3 * time.Second)
	g.Backoff = mq.Backoff{Initial: mq.Duration(200 * time.Millisecond), Multiplier: 2, Max: mq.Duration(2 * time.Second), Jitter: 0.2}
	g.MaxAttempts = 0
	limited := g
	switch limited.MaxAttempts = manyAttempts; {
	case f.has[useEndless]:
		limited.MaxAttempts = 0
	case f.has[useFew]:
		limited.MaxAttempts = 1 + f.rng.IntN(3)
	}
	out := []lognode.GroupConfig{lognode.Group(1, g), lognode.Group(2, limited)}
	if f.has[useOrder] {
		which := f.rng.IntN(3) // the first, the second, both
		for i := range out {
			if which == i || which == 2 {
				out[i].Settings.Ordering = mq.OrderingKey
			}
		}
	}
	if f.has[useLanes] {
		for i := range out {
			if f.chance(30) {
				out[i].Settings.Lanes.Mode = mq.LanesStrict
			}
			if f.chance(30) {
				out[i].Settings.MaxInFlight = 20
			}
		}
	}
	return out
}

// manyAttempts is the usual limit of group 2: so many answers to one consumer are not lost.
const manyAttempts = 6

// traits is what the sender of a message chose beside its value.
type traits struct {
	key  string // empty for none
	lane mq.Lane
	ttl  int64 // 0 for none
	sent int64
}

// longLife is a TTL that does not end within a run, whatever clocks do.
const longLife = 1000 * 3600 * second

// message makes one with traits of the run's kind.
func (f *features) message(value string) (mq.Message, traits) {
	t := traits{lane: mq.LaneNormal}
	if f.has[useLanes] && f.chance(70) {
		t.lane = mq.Lane(f.rng.IntN(mq.Lanes))
	}
	if f.has[useOrder] && f.chance(80) {
		t.key = fmt.Sprintf("k%d", f.rng.IntN(f.keys))
	}
	if f.has[useTTL] && f.chance(50) {
		if t.ttl = longLife; f.chance(50) {
			t.ttl = f.between(50*millisecond, 4*second)
		}
	}
	return mq.Message{Value: []byte(value), TTL: t.ttl, Lane: t.lane, Key: []byte(t.key), HasKey: t.key != ""}, t
}
