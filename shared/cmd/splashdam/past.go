package main

import (
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/splashdam/splashdam/shared/api"
)

// past is a flag that is a time, or how long ago that is by this machine's clock: 2h.
type past time.Time

// text is the time as the API takes it; nothing for none.
func (p past) text() string {
	if at := time.Time(p); !at.IsZero() {
		return at.Format(time.RFC3339Nano)
	}
	return ""
}

// parsePast reads a time, or how long before now it is.
func parsePast(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago).UTC(), nil
	}
	return time.Time{}, wrongUsage("a time looks like 2026-01-31T12:00:00Z, or like 2h for how long ago it is; not %q", text)
}

// decodePast reads a flag that is a past.
func decodePast(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("time", &text); err != nil {
		return err
	}
	if text == "" {
		return nil // refuseEmpty says so
	}
	at, err := parsePast(text, time.Now())
	if err != nil {
		return err
	}
	target.Set(reflect.ValueOf(past(at)))
	return nil
}

// readPlace is a place to read from or to, with how long ago it is made a time. What it is beside that the gateway judges: an offset,
// a time, earliest or latest.
func readPlace(text string, now time.Time) string {
	if strings.Trim(text, "0123456789") == "" { // an offset; 0 would be a duration, too
		return text
	}
	if at, err := parsePast(text, now); err == nil {
		return past(at).text()
	}
	return text
}

// startInput is where a group or webhook begins, nil for the default.
func startInput(text string) (*api.StartInput, error) {
	switch text {
	case "":
		return nil, nil
	case "earliest", "latest":
		return &api.StartInput{At: text}, nil
	}
	at, err := parsePast(text, time.Now())
	if err != nil {
		return nil, wrongUsage("--start is earliest, latest, a time like 2026-01-31T12:00:00Z, or 2h for how long ago; not %q", text)
	}
	return &api.StartInput{At: "time", Time: at}, nil
}
