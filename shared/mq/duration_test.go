package mq

import (
	"testing"
	"time"
)

// Durations are written without their zeros, and what is written reads back as the same.
func TestDurationText(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 30 * time.Second: "30s", 5 * time.Minute: "5m", 168 * time.Hour: "168h",
		10 * time.Minute: "10m", 90 * time.Second: "1m30s", 150 * time.Minute: "2h30m", 10*time.Hour + time.Second: "10h0m1s",
		-time.Hour: "-1h", 250 * time.Millisecond: "250ms", 100 * time.Second: "1m40s", 20 * time.Hour: "20h"} {
		b, err := Duration(d).MarshalText()
		if err != nil || string(b) != want {
			t.Errorf("%s, want %s (%v)", b, want, err)
		}
		var back Duration
		if err := back.UnmarshalText(b); err != nil || time.Duration(back) != d {
			t.Errorf("%s reads back as %s, %v", b, time.Duration(back), err)
		}
	}
}
