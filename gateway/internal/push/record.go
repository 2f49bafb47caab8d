package push

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// Record is one attempt as the journal keeps it: it travels as the reason of the settlement, in a form that
// people can read (in traces and among dead letters) and ParseRecord too.
type Record struct {
	Attempt uint32
	Gateway string
	Status  int // 0: no answer
	Took    time.Duration
	Detail  string // why, or the begin of an answer that refuses
}

// String is "500 in 34ms, attempt 3 by gateway-1: out of memory", with "no answer" for a status of 0.
func (r Record) String() string {
	status := noAnswer
	if r.Status != 0 {
		status = strconv.Itoa(r.Status)
	}
	s := fmt.Sprintf("%s in %s, attempt %d by %s", status, round(r.Took), r.Attempt, r.Gateway)
	if r.Detail != "" {
		s += ": " + r.Detail
	}
	return cutText(s, mq.MaxReasonBytes)
}

const noAnswer = "no answer"

// round keeps what matters: texts that are alike take less room.
func round(d time.Duration) time.Duration {
	switch {
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	case d < time.Second:
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Millisecond)
}

// ParseRecord reads what String wrote; false for any other reason.
func ParseRecord(s string) (Record, bool) {
	var r Record
	status, rest, ok := strings.Cut(s, " in ")
	if !ok {
		return Record{}, false
	}
	var err error
	if status != noAnswer {
		if r.Status, err = strconv.Atoi(status); err != nil || r.Status < 100 || r.Status > 999 {
			return Record{}, false
		}
	}
	took, rest, ok := strings.Cut(rest, ", attempt ")
	if r.Took, err = time.ParseDuration(took); !ok || err != nil {
		return Record{}, false
	}
	number, rest, ok := strings.Cut(rest, " by ")
	n, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil {
		return Record{}, false
	}
	r.Attempt = uint32(n)
	r.Gateway, r.Detail, _ = strings.Cut(rest, ": ")
	return r, r.Gateway != ""
}

// recordOf makes the record of an answer.
func recordOf(gateway string, attempt uint32, a *answer) Record {
	r := Record{Attempt: attempt, Gateway: gateway, Status: a.status, Took: a.took, Detail: a.text}
	if a.err != nil {
		r.Detail = a.err.Error()
	}
	return r
}
