package load

import (
	"strings"
	"testing"

	"github.com/splashdam/splashdam/loadtest/checker"
)

func TestTable(t *testing.T) {
	r := Report{Mode: "e2e", Seconds: 2, Requests: 10, Messages: 4000, MessageRate: 2000, ByteRate: 200_000, CPU: 0.5,
		Latency: map[string]Latency{
			"publish":             {Mean: 1.5, P50: 1, P90: 2, P99: 3.25, P999: 4, Max: 120_000},
			"publish to delivery": {Mean: 0.1, P50: 0.1, P90: 0.1, P99: 0.1, P999: 0.1, Max: 0.1},
		},
		Failed: map[string]int64{"no_leader": 3, "connection_lost": 12},
		Check:  &checker.Report{Sent: 5, Stored: 4, Lost: 1, FirstTwice: 2, Disturbed: true, Examples: []string{"0/1 is gone"}},
		Notes:  []string{"a note"}}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	want := `e2e: 4000 messages in 2.0 s: 2000 messages/s, 0.2 MB/s, 10 requests
servers: 0.50 cores

latency in ms             mean       p50       p90       p99     p99.9       max
publish                  1.500     1.000     2.000     3.250     4.000 120000.000
publish to delivery      0.100     0.100     0.100     0.100     0.100     0.100

failed
  connection_lost                       12
  no_leader                              3

check: 1 VIOLATIONS
  sent                                   5
  stored                                 4
  refused                                0
  outcome unknown                        0
  delivered                              0
  redelivered                            0
  copies                                 0
  acknowledged                           0
  of other runs                          0
  not settled                            0
  lost                                   1
  phantoms                               0
  damaged                                0
  two values                             0
  acked and came back                    0
  keys that moved                        0
  keys out of order                      0
  first twice                            2 (allowed: disturbed)
  overtaken                              0 (allowed: disturbed)
  - 0/1 is gone

note: a note
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}
