package load

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

const tick = 10 * time.Millisecond

// steady are deliveries to a member every tick, from and to included.
func steady(list []arrival, member string, from, to time.Duration) []arrival {
	for at := from; at <= to; at += tick {
		list = append(list, arrival{at, member})
	}
	return list
}

func TestGapsOfARebalance(t *testing.T) {
	// Partition 0 stays with a, which pauses for 30 ms; partition 1 goes from a to b, seen at 1.02 s and taken over at
	// 1.05 s after the last delivery to a at 1.01 s; partition 2 is b's, and stops at 1.5 s.
	delivered := [][]arrival{
		steady(steady(nil, "a", 0, 1200*time.Millisecond), "a", 1230*time.Millisecond, 2*time.Second),
		steady(steady(nil, "a", 0, 1010*time.Millisecond), "b", 1050*time.Millisecond, 2*time.Second),
		steady(nil, "b", 0, 1500*time.Millisecond),
	}
	turns := []turn{{0, []string{"a", "a", "b"}}, {1020 * time.Millisecond, []string{"a", "b", "b"}}}
	phases := []phase{{"none", 0, time.Second}, {"join", time.Second, 1400 * time.Millisecond}, {"stop", 1400 * time.Millisecond, 2 * time.Second}}
	got := analyse(delivered, phases, turns)
	want := []Rebalanced{
		{Change: "none", Stayed: 3, Gap: 10},
		{Change: "join", At: 1, Moved: 1, Stayed: 2, Gap: 30, MovedGap: 40, Assigned: 20, TakenOver: 30},
		{Change: "stop", At: 1.4, Stayed: 3, Gap: 500},
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

func TestRebalancePlotIsSVG(t *testing.T) {
	delivered := [][]arrival{steady(steady(nil, "a", 0, time.Second), "b", 1200*time.Millisecond, 2*time.Second), nil,
		steady(steady(nil, "a", 0, 400*time.Millisecond), "a", 800*time.Millisecond, time.Second)}
	phases := []phase{{"<join> & go", 500 * time.Millisecond, 2 * time.Second}}
	text := string(drawRebalance(delivered, phases, analyse(delivered, phases, nil)))
	bars := 0
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			bars++
		}
	}
	// The ground, the legend's two members, a bar for each with a gap of 200 ms between them; and two of one member with a pale one between.
	if bars != 1+2+2+3 || strings.Count(text, "fill-opacity") != 1 {
		t.Errorf("%d bars in\n%s", bars, text)
	}
}

func TestRebalanceRefuses(t *testing.T) {
	good := Rebalance{Options: short("http://127.0.0.1:1"), Members: 3, Rate: 100, TTL: 2 * time.Second, Rest: time.Second}
	if err := good.valid(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Rebalance){
		"one member": func(o *Rebalance) { o.Members = 1 }, "no rate": func(o *Rebalance) { o.Rate = 0 },
		"a short ttl": func(o *Rebalance) { o.TTL = time.Second }, "a broken ttl": func(o *Rebalance) { o.TTL = 2500 * time.Millisecond },
		"no rest": func(o *Rebalance) { o.Rest = 0 }, "small values": func(o *Rebalance) { o.Size = 3 },
	} {
		bad := good
		if spoil(&bad); bad.valid() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
