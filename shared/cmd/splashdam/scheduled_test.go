package main

import (
	"slices"
	"strings"
	"testing"
)

// One that is refused is told, and the others are done; a server that can't be asked is not asked for each.
func TestScheduledOneAfterTheOther(t *testing.T) {
	s := &server{answers: map[string]string{
		"DELETE /v1/scheduled/a": `200 {"id":"a","state":"cancelled"}`,
		"DELETE /v1/scheduled/b": `409 {"code":"already_released","detail":"message b"}`,
		"DELETE /v1/scheduled/c": `200 {"id":"c","state":"cancelled"}`,
	}}
	status, out, errOut := s.run(t, "", "scheduled", "cancel", "a", "b", "c")
	if status != exitRefused || out != "a  cancelled\nc  cancelled\n" || !strings.Contains(errOut, "b: already_released: message b") {
		t.Errorf("%d, %q, %q", status, out, errOut)
	}
	status, out, errOut = s.run(t, "", "scheduled", "cancel", "b")
	if status != exitRefused || out != "" || !strings.Contains(errOut, "splashdam: already_released: message b") {
		t.Errorf("one alone: %d, %q, %q", status, out, errOut)
	}
}

func TestScheduledOfOnePartition(t *testing.T) {
	const call = "GET /v1/topics/t/scheduled?limit=100&partition=2"
	s := &server{answers: map[string]string{call: `200 {"scheduled":[{"id":"a","partition":2,"state":"scheduled","deliver_at":"2026-11-30T02:39:18.5Z"}]}`}}
	status, out, errOut := s.run(t, "", "scheduled", "list", "t", "--partition", "2")
	if status != exitOK || !strings.Contains(out, "2026-11-30 02:39:18.500") || !slices.Contains(s.asked, call) {
		t.Errorf("%d, %q, %q, asked %q", status, out, errOut, s.asked)
	}
}
