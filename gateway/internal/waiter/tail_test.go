package waiter

import (
	"slices"
	"testing"

	"github.com/splashdam/splashdam/shared/bus"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
)

func tailOf(partitions int) (*Manager, *tail) {
	m := New(Config{Most: 10})
	t := &tail{changed: make(chan struct{}), gone: make(chan struct{}), version: 1}
	for range partitions {
		t.ends = append(t.ends, tailEnd{version: t.version})
	}
	m.tails[7] = t
	return m, t
}

func changed(f *Follower) bool {
	select {
	case <-f.Changed():
		return true
	default:
		return false
	}
}

func (f *Follower) wants(t *testing.T, what string, partitions ...uint32) {
	t.Helper()
	if got := changed(f); got != (len(partitions) > 0) {
		t.Errorf("%s: changed %v", what, got)
	}
	if got := f.Asking(); !slices.Equal(got, partitions) {
		t.Errorf("%s: asks %v, want %v", what, got, partitions)
	}
}

// Whatever changes after a follower began to ask is news to it, once, and of that partition only.
func TestFollowersMissNothing(t *testing.T) {
	m, x := tailOf(3)
	a, b := &Follower{m: m, t: x}, &Follower{m: m, t: x}
	a.wants(t, "at first", 0, 1, 2)
	a.wants(t, "nothing since")
	m.woken(7, []bus.Pair{{Partition: 1, Group: frame.TailGroup}, {Partition: 2, Group: 5}, {Partition: 9, Group: frame.TailGroup}})
	a.wants(t, "a hint", 1)
	waits := a.Changed()
	x.end(2, 10)
	select {
	case <-waits:
	default:
		t.Error("who waits is not told")
	}
	x.end(0, 3)
	a.wants(t, "two answers", 0, 2)
	x.end(2, 10)
	a.wants(t, "the same answer again")
	b.wants(t, "who came at the beginning has seen nothing", 0, 1, 2)
	m.woken(7, []bus.Pair{{Partition: 1, Group: 5}})
	b.wants(t, "what concerns a group")
	m.woken(8, []bus.Pair{{Partition: 1, Group: frame.TailGroup}})
	b.wants(t, "what concerns another topic")
}

func TestFollowersOfADeletedTopicEnd(t *testing.T) {
	m, x := tailOf(1)
	f := &Follower{m: m, t: x}
	gone := func() bool {
		select {
		case <-f.Gone():
			return true
		default:
			return false
		}
	}
	says := Unknown
	standing := func(topic mq.TopicID, g mq.GroupID) Standing {
		if topic != 7 || g != frame.TailGroup {
			t.Errorf("asked for topic %d, group %d", topic, g)
		}
		return says
	}
	for _, step := range []struct {
		says Standing
		gone bool
	}{{Unknown, false}, {Alive, false}, {Unknown, true}, {Deleted, true}} {
		says = step.says
		if m.End(standing); gone() != step.gone {
			t.Errorf("%+v: gone %v", step, gone())
		}
	}
}
