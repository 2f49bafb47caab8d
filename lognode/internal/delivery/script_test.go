package delivery

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// The scripts of testdata read like the protocol: "> command", then what is expected. Each command also says which
// groups became ready.
func TestScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/script/*.txt")
	if len(files) == 0 {
		t.Fatal("no scripts")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{journal: newJournal(t)}
			var command string
			var want []string
			line := 0
			check := func() {
				if command == "" {
					return
				}
				got := s.run(command)
				if !slices.Equal(got, want) {
					t.Fatalf("%s:%d: %s\ngot:\n  %s\nwant:\n  %s", file, line, command, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
				}
			}
			for i, l := range strings.Split(strings.TrimSpace(string(text)), "\n") {
				l = strings.TrimSpace(l)
				switch {
				case strings.HasPrefix(l, ">"):
					check()
					command, want, line = strings.TrimSpace(l[1:]), nil, i+1
				case l != "" && !strings.HasPrefix(l, "#"):
					want = append(want, l)
				}
			}
			check()
		})
	}
}

type script struct {
	*journal
	out []string
}

func (s *script) say(format string, args ...any) {
	s.out = append(s.out, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (s *script) run(command string) []string {
	s.out = nil
	words := strings.Fields(command)
	arg := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		arg[k] = v
	}
	num := func(k string) uint64 { n, _ := strconv.ParseUint(arg[k], 10, 64); return n }
	first := uint64(0)
	if len(words) > 1 {
		first, _ = strconv.ParseUint(words[1], 10, 64)
	}
	s.command(words[0], arg, num, first)
	if err := s.m.Check(); err != nil {
		s.t.Fatalf("%s: %v", command, err)
	}
	var ready []int
	s.m.TakeReady(func(id mq.GroupID) { ready = append(ready, int(id)) })
	slices.Sort(ready)
	if len(ready) > 0 {
		s.say("ready %s", strings.Trim(fmt.Sprint(ready), "[]"))
	} else if words[0] == "failover" {
		s.say("ready")
	}
	return s.out
}

func (s *script) command(name string, arg map[string]string, num func(string) uint64, first uint64) {
	switch name {
	case "group":
		s.group(mq.GroupID(first), func(c *GroupConfig) {
			c.Version, c.Start = max(1, num("version")), num("start")
			_, c.Paused = arg["paused"]
			if n := num("inflight"); n > 0 {
				c.Settings.MaxInFlight = int(n)
			}
		})
	case "delete":
		if err := s.m.DeleteGroup(s.now, mq.GroupID(first)); err != nil {
			s.t.Fatal(err)
		}
	case "publish":
		s.cut(int(first))
	case "commit":
		s.cut(0)
	case "receive":
		s.scriptReceive(num)
	case "ack", "nack", "reject", "extend":
		s.scriptSettle(name, arg, num)
	case "pass":
		for d := range arg {
			d, err := time.ParseDuration(d)
			if err != nil {
				s.t.Fatal(err)
			}
			s.pass(d)
		}
	case "failover":
		s.failover()
	case "confirm":
		s.m.Confirm(num("stream"), num("delivery"))
	case "return":
		if _, ok := arg["off"]; ok {
			s.m.Return(s.now, num("stream"), num("delivery"), num("off"))
		} else {
			s.m.Return(s.now, num("stream"), num("delivery"))
		}
	case "gone":
		s.m.StreamGone(s.now, num("stream"))
	case "drop":
		s.m.Drop(s.now, first)
	case "replay":
		s.cut(0)
		if got, want := dump(replay(s.t, New(part), s.entries), s.now), dump(s.m, s.now); got != want {
			s.say("%s\n%s", got, want)
			return
		}
		s.say("same")
	default:
		s.look(name, arg, num, first)
	}
}

func (s *script) look(name string, arg map[string]string, num func(string) uint64, first uint64) {
	switch name {
	case "held":
		for state := range states {
			if state.String() == arg["state"] {
				for _, h := range s.m.Held(mq.GroupID(num("g")), state, 0, 100) {
					s.say("%d attempt %d by %s: %s", h.Offset, h.Attempt, h.Consumer, h.Reason)
				}
			}
		}
	case "where":
		for _, g := range s.m.MessageState(first) {
			s.say("group %d %s", g.Group, g.State)
		}
	case "figures":
		f, _ := s.m.Figures(mq.GroupID(num("g")))
		s.say("cursor %d next %d ready %d leased %d waiting %d dead %d acked %d lag %d",
			f.Cursor, f.Next, f.Ready, f.Leased, f.Waiting, f.Dead, f.Acked, f.Lag)
	case "trace":
		s.cut(0)
		for i := range s.entries {
			if err := TraceEntry(&s.entries[i], first, s.sayEvent); err != nil {
				s.t.Fatal(err)
			}
		}
	default:
		s.t.Fatalf("no command %q", name)
	}
}

func (s *script) sayEvent(e Event) {
	line := strings.Join(strings.Fields(e.Type+" "+e.Producer+" "+e.Gateway), " ")
	if e.Group != 0 {
		line += fmt.Sprintf(" group %d", e.Group)
	}
	if e.Attempt != 0 {
		line += fmt.Sprintf(" attempt %d", e.Attempt)
	}
	if e.Consumer != "" {
		line += " to " + e.Consumer
	}
	if e.Reason != "" {
		line += ": " + e.Reason
	}
	s.say("%s", line)
}

func (s *script) scriptReceive(num func(string) uint64) {
	g, err := s.m.Receive(s.now, ReceiveRequest{Group: mq.GroupID(num("g")), Max: int(num("n")), Consumer: "c",
		Stream: num("stream"), Delivery: num("delivery")})
	if err != nil {
		s.say("%v", err)
		return
	}
	for _, r := range g.Runs {
		s.say("%d-%d attempt %d fence %d.%d", r.First, r.First+uint64(r.Count)-1, r.Attempt, g.Segment, r.Counter)
	}
	switch {
	case len(g.Runs) == 0:
		s.say("nothing%s", [...]string{"", ": paused", ": in flight", ": full"}[g.Why])
	case g.MustCommit:
		s.say("must commit")
	default:
		s.say("written behind")
	}
}

func (s *script) scriptSettle(name string, arg map[string]string, num func(string) uint64) {
	var segment, counter uint64
	fmt.Sscanf(arg["fence"], "%d.%d", &segment, &counter)
	it := SettleItem{Delay: -1, Reason: arg["reason"], Receipt: mq.Receipt{Partition: part, Offset: num("off"),
		Group: mq.GroupID(num("g")), Generation: 1, Segment: segment, Counter: counter}}
	it.Outcome = map[string]Outcome{"ack": Ack, "nack": Nack, "reject": Reject, "extend": Extend}[name]
	if d, err := time.ParseDuration(arg["delay"]); err == nil {
		it.Delay = int64(d)
	}
	if d, err := time.ParseDuration(arg["lease"]); err == nil {
		it.Lease = int64(d)
	}
	r := s.m.Settle(s.now, []SettleItem{it}, nil)[0]
	switch {
	case r.Code == SettleGroupNotFound:
		s.say("no group")
	case r.Code == SettleStale:
		s.say("stale %s", r.State)
	case r.State == StateWaiting:
		s.say("ok waiting in %s", time.Duration(r.Until-s.now))
	case r.State == StateLeased:
		s.say("ok leased for %s", time.Duration(r.Until-s.now))
	default:
		s.say("ok %s", r.State)
	}
}
