package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Where a time in the past is meant, how long ago it is says it as well, and an offset stays one.
func TestTimesInThePast(t *testing.T) {
	for text, want := range map[string]string{
		"2h": "2027-03-01T10:00:00Z", "90s": "2027-03-01T11:58:30Z", "1h30m": "2027-03-01T10:30:00Z",
		"2026-01-31T12:00:00Z": "2026-01-31T12:00:00Z", "2026-01-31T12:00:00+02:00": "2026-01-31T12:00:00+02:00",
	} {
		at, err := parsePast(text, time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC))
		if err != nil || at.Format(time.RFC3339) != want {
			t.Errorf("%s is %v (%v), want %s", text, at, err, want)
		}
		if got := readPlace(text, time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)); got != want {
			t.Errorf("a read from %s is from %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"yesterday", "5", "0", "-2h", "0s", "2d", ""} {
		if at, err := parsePast(text, time.Now()); err == nil {
			t.Errorf("%q is %v", text, at)
		}
		if got := readPlace(text, time.Now()); got != text {
			t.Errorf("a read from %q is from %q", text, got)
		}
	}
}

// Each command that takes such a time sends one of then.
func TestCommandsTakeHowLongAgo(t *testing.T) {
	s := &server{} // what it answers is not the matter
	for line, field := range map[string]string{
		"seek t g 2h": "to", "group create t g --start 2h": "start", "webhook create t w http://x/ --start 2h": "start",
		"dead redrive t g --after 2h": "filter", "consume t --from-time 2h": "from=", "consume t --from 2h": "from=",
		"consume t --from earliest --to-time 2h": "to=", "peek t --from 2h": "from=",
	} {
		s.asked = nil
		began := time.Now().Add(-2 * time.Hour)
		status, _, errOut := s.run(t, "", strings.Fields(line)...)
		if status == exitUsage || len(s.asked) == 0 {
			t.Errorf("%s: %d %s", line, status, errOut)
			continue
		}
		at := sentTime(t, s.asked[0], field)
		if at.Before(began.Add(-time.Millisecond)) || at.After(time.Now().Add(-2*time.Hour)) {
			t.Errorf("%s: %v in %s", line, at, s.asked[0])
		}
	}
}

// sentTime is the time in a field of a request's body, or in a parameter of its query.
func sentTime(t *testing.T, asked, field string) time.Time {
	t.Helper()
	_, text, _ := strings.Cut(asked, field)
	if !strings.HasSuffix(field, "=") {
		var found time.Time
		for _, one := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(`"{}, `, r) }) {
			if at, err := time.Parse(time.RFC3339, one); err == nil {
				found = at
			}
		}
		return found
	}
	text, _, _ = strings.Cut(text, "&")
	text, _, _ = strings.Cut(text, " ")
	text, err := url.QueryUnescape(text)
	if err != nil {
		t.Fatal(err)
	}
	var at time.Time
	if err := json.Unmarshal([]byte(`"`+text+`"`), &at); err != nil {
		t.Fatalf("%s: %v", asked, err)
	}
	return at
}
