package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
)

func headersNamed(prefix string, n int) (out []mq.Header) {
	for i := range n {
		out = append(out, mq.Header{Name: fmt.Sprint(prefix, i), Value: fmt.Sprint(i)})
	}
	return out
}

// Whatever a message has of its own: an exported one has at most as many headers as a message may have, all facts, the first of
// its own, none of an earlier export, and the number of those that are missing.
func TestExportHeadersStayWithinTheLimit(t *testing.T) {
	for own := 0; own <= mq.MaxHeaders; own++ {
		for _, earlier := range []int{0, 5} {
			if own+earlier > mq.MaxHeaders {
				continue
			}
			facts := headersNamed(exportPrefix+"fact-", 13)
			before := append(headersNamed(exportPrefix+"earlier-", earlier), headersNamed("own-", own)...)
			got := exportHeaders(before, facts)
			kept, dropped := 0, 0
			for i, h := range got[:len(got)-len(facts)] {
				switch {
				case h.Name == headersDropped:
					_, _ = fmt.Sscan(h.Value, &dropped)
				case h.Name != fmt.Sprint("own-", i):
					t.Fatalf("%d own: header %d is %s", own, i, h.Name)
				default:
					kept++
				}
			}
			for i, h := range got[len(got)-len(facts):] {
				if h != facts[i] {
					t.Fatalf("%d own: fact %d is %v", own, i, h)
				}
			}
			if len(got) > mq.MaxHeaders || kept+dropped != own || dropped > 0 && len(got) != mq.MaxHeaders {
				t.Fatalf("%d own, %d of an earlier export: %d headers, %d kept, %d dropped", own, earlier, len(got), kept, dropped)
			}
			if dropped > 0 && own+len(facts) <= mq.MaxHeaders {
				t.Fatalf("%d own and %d facts fit, and %d were dropped", own, len(facts), dropped)
			}
		}
	}
}

// Publishers can write the header that counts: no value of it makes a message go around for ever, and none fails.
func TestExportHopsAreBounded(t *testing.T) {
	for text, want := range map[string]int{"": 0, "x": 0, "-9223372036854775808": 0, "-1": 0, "3": 3, "8": 8,
		"9223372036854775807": mostExportHops, strings.Repeat("9", 100): 0} {
		if n := exportedBefore([]mq.Header{{Name: "other", Value: "5"}, {Name: exportedHops, Value: text}}); n != want {
			t.Errorf("%q is %d hops, want %d", text, n, want)
		}
	}
}
