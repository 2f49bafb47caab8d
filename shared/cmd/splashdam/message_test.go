package main

import (
	"strings"
	"testing"
)

func TestMessageByID(t *testing.T) {
	s := &server{answers: map[string]string{
		"GET /v1/messages/a": `200 {"topic":"orders","id":"a","partition":3,"offset":7,"key":"ada","value":"AAE=","encoding":"base64","lane":"high",
			"headers":{"type":"order"},"timestamp":"2026-03-01T12:00:00Z"}`,
		"GET /v1/messages/b": `200 {"topic":"orders","id":"b","partition":3,"state":"scheduled","deliver_at":"2026-03-02T12:00:00Z","value":"later","encoding":"utf8",
			"lane":"normal","timestamp":"2026-03-01T12:00:00Z"}`,
		"GET /v1/messages/a?include_archived=true": `200 {"topic":"orders","id":"a","value":"old","encoding":"utf8"}`,
	}}
	_, out, errOut := s.run(t, "", "message", "a")
	for _, want := range []string{"a of topic orders", "3/7", "ada", "type=order", "high", `\x00\x01`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s%s", want, out, errOut)
		}
	}
	if _, out, _ := s.run(t, "", "message", "b"); !strings.Contains(out, "scheduled until 2026-03-02 12:00:00") || !strings.Contains(out, "later") {
		t.Errorf("scheduled: %s", out)
	}
	if _, out, _ := s.run(t, "", "message", "a", "--raw"); out != "\x00\x01" {
		t.Errorf("raw: %q", out)
	}
	if _, out, _ := s.run(t, "", "message", "a", "--raw", "--include-archived"); out != "old" {
		t.Errorf("archived: %q", out)
	}
}
