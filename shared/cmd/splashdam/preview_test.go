package main

import (
	"slices"
	"strings"
	"testing"
)

// --dry-run asks with ?dry_run=true, asks for nothing else, and says that nothing was done.
func TestDryRunsAsk(t *testing.T) {
	const changes = `200 {"dry_run":true,"topic":"t","created":false,"changes":[
		{"setting":"/retention/time","from":"168h","to":"1h","removes":true},{"setting":"/retention/bytes","from":0,"to":9}]}`
	tests := []struct {
		asks, answer string
		args         []string
		says         []string
	}{
		{"PATCH /v1/topics/t?dry_run=true", changes, []string{"topic", "update", "t", "--retention", "1h"}, []string{"/retention/time", "168h", "1h", "removes", "0", "9"}},
		{"PATCH /v1/topics/t?dry_run=true&force=true", `200 {"dry_run":true,"topic":"t","created":false,"changes":[]}`,
			[]string{"topic", "update", "t", "--partitions", "9", "--force"}, []string{"nothing would change"}},
		{"DELETE /v1/topics/t/groups/g/snapshots/s?dry_run=true", `200 {"name":"s","created":"2026-01-31T12:00:00Z","bytes":12,"partitions":[{"partition":1,"offset":7}],"dry_run":true}`,
			[]string{"group", "snapshot", "delete", "t", "g", "s"}, []string{"would delete", "1/7"}},
		{"POST /v1/nodes/n/drain?dry_run=true", `200 {"name":"n","alive":true,"store":"x","leads":3,"replicas":5,"draining":true,"dry_run":true}`,
			[]string{"cluster", "drain", "n"}, []string{"n would give away", "3", "5"}},
		{"POST /v1/topics/t/partitions/0/move-leader?dry_run=true", `200 {"partition":0,"leader":"b","dry_run":true,"from":"a"}`,
			[]string{"cluster", "move-leader", "t", "0"}, []string{"would be led by b instead of a"}},
		{"POST /v1/topics/t/webhooks/w/rotate-secret?dry_run=true", `200 {"name":"w","secrets":[{"fingerprint":"abcd","until":"2026-01-31T12:00:00Z"}],"dry_run":true}`,
			[]string{"webhook", "rotate-secret", "t", "w"}, []string{"would be another", "abcd", "2026-01-31"}},
	}
	for _, tt := range tests {
		s := &server{answers: map[string]string{tt.asks: tt.answer}}
		status, out, errOut := s.run(t, "", append(tt.args, "--dry-run")...)
		if status != exitOK || len(s.asked) != 1 {
			t.Errorf("%v: %d, asked %q: %s%s", tt.args, status, s.asked, out, errOut)
		}
		for _, want := range tt.says {
			if !strings.Contains(out, want) {
				t.Errorf("%v: %q does not say %q", tt.args, out, want)
			}
		}
	}
}

// A dry run of an update that reads before it puts does not put anything else.
func TestDryRunOfAGroupUpdate(t *testing.T) {
	s := &server{answers: map[string]string{"GET /v1/topics/t/groups/g": `200 {"name":"g","topic":"t","settings":{"lease":"30s"}}`,
		"PUT /v1/topics/t/groups/g?dry_run=true": `200 {"dry_run":true,"topic":"t","group":"g","created":false,"changes":[{"setting":"/lease","from":"30s","to":"1m"}]}`}}
	status, out, errOut := s.run(t, "", "group", "update", "t", "g", "--lease", "1m", "--dry-run")
	if status != exitOK || !strings.Contains(out, "/lease") || len(s.asked) != 2 || !slices.ContainsFunc(s.asked, func(a string) bool { return strings.Contains(a, `"lease":"1m"`) }) {
		t.Errorf("%d, asked %q: %s%s", status, s.asked, out, errOut)
	}
}

// Issue C names the flag --include-deleted; it is the same.
func TestIncludeDeleted(t *testing.T) {
	for _, flag := range []string{"--include-archived", "--include-deleted"} {
		s := &server{answers: map[string]string{"GET /v1/messages/i/trace?include_archived=true": `200 {"id":"i","topic":"t","events":[],"groups":[]}`}}
		if status, out, errOut := s.run(t, "", "trace", "i", flag); status != exitOK {
			t.Errorf("%s: %d: %s%s", flag, status, out, errOut)
		}
	}
}
