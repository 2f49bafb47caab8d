package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
)

// steps calls a function for each line that a component logs, before the component goes on.
type steps struct {
	slog.Handler
	on func(msg, partition string)
	in string // the partition that it is about
}

func (s *steps) Enabled(context.Context, slog.Level) bool { return true }

func (s *steps) Handle(ctx context.Context, r slog.Record) error {
	s.on(r.Message, s.in)
	if !s.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

func (s *steps) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := &steps{s.Handler.WithAttrs(attrs), s.on, s.in}
	for _, a := range attrs {
		if a.Key == "partition" {
			out.in = a.Value.String()
		}
	}
	return out
}

// All coordinators vanish while a leader is moved. Once the next leader has heard that it leads it does so without them, and
// gateways find it. If they vanish before that, after the seal, nobody can lead: the partition goes on when they are back. The
// other partitions serve all the time.
func TestEndCoordinatorsVanishDuringAMove(t *testing.T) {
	t.Parallel()
	for step, serves := range map[string]bool{"sealed": false, "leading": true} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			l := newLinks()
			var all [][2]string
			for _, x := range []string{"node-1", "node-2", "node-3", "gateway-1"} {
				all = append(all, pair(x, "coordinator-1"))
			}
			var armed sync.Mutex // held until the move begins
			moving := false
			cut := make(chan struct{})
			log := slog.New(&steps{slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}), func(msg, partition string) {
				if msg != step || step == "leading" && partition != "2/0" {
					return
				}
				armed.Lock()
				defer armed.Unlock()
				if moving {
					moving = false
					for _, p := range all {
						l.cut(p[0], p[1])
					}
					close(cut)
				}
			}, ""})
			c := start(t, l.over(Options{Nodes: 3, Log: log, CoordinatorConfig: nobodyIsLost}))
			one := via(t, c, 1)
			one.topic("still", `{"partitions":1,"replicas":3}`)
			one.topic("moved", `{"partitions":1,"replicas":3}`)
			for i := range 5 {
				one.publish("moved", fmt.Sprintf("v-%d", i))
			}
			one.publish("still", "before")
			one.settle("ack", one.receiveN("moved", "g", 2, ""), "")
			free := "" // moved there, each node leads one partition at most, and the controller moves no other one beside it
			eventually(t, "a node leads nothing", func() bool {
				a, b := one.leader("still", 0), one.leader("moved", 0)
				for _, n := range []string{"node-1", "node-2", "node-3"} {
					if n != a && n != b {
						free = n
					}
				}
				return a != "" && b != "" && a != b
			})
			armed.Lock()
			moving = true
			armed.Unlock()
			asking, cancel := context.WithCancel(t.Context())
			defer cancel()
			var asked sync.WaitGroup
			defer asked.Wait()
			asked.Go(func() {
				_, _, _ = one.try(asking, "POST", "/v1/topics/moved/partitions/0/move-leader", `{"to":"`+free+`"}`)
			})
			<-cut
			one.publish("still", "during")
			if serves {
				publishAnyway(t, one, "moved", "v-5")
			}
			cancel()
			for _, p := range all {
				l.heal(p[0], p[1])
			}
			if !serves {
				publishAnyway(t, one, "moved", "v-5")
			}
			if got := values(one.receiveN("moved", "g", 4, "")); !slices.Equal(got, []string{"v-2", "v-3", "v-4", "v-5"}) {
				t.Errorf("received %v after two acks", got)
			}
			one.settle("ack", one.receiveN("still", "g", 2, ""), "")
		})
	}
}
