package openapitest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	topicList = `{"topics":[{"name":"a","state":"ready","created":"2026-01-01T00:00:00Z","messages":1,"bytes":2,"scheduled":0,"publish_rate":0,"deliver_rate":0.5,"partition_count":4}]}`
	problem   = `{"type":"urn:splashdam:error:topic_not_found","title":"There is none.","status":404,"code":"topic_not_found","retryable":false,"request_id":"1"}`
	received  = `{"messages":[{"id":"EAEAAA","partition":0,"offset":0,"value":"x","encoding":"utf8","lane":"normal","timestamp":"2026-01-01T00:00:00.5Z","receipt":"r","fence":"00000000000000010000000000000001","attempt":1,"lease_expires_at":"2026-01-01T00:00:30Z"}]}`
)

// What fits the document goes through without a report; what does not is reported.
func TestTransportReportsDifferences(t *testing.T) {
	for _, c := range []struct {
		name, method, path, sent string
		status                   int
		kind, answer             string
		wrong                    bool
	}{
		{"list", "GET", "/v1/topics?limit=5", "", 200, "application/json", topicList, false},
		{"list with a state that is none", "GET", "/v1/topics", "", 200, "application/json", strings.Replace(topicList, "ready", "fine", 1), true},
		{"list without topics", "GET", "/v1/topics", "", 200, "application/json", `{}`, true},
		{"problem", "GET", "/v1/topics/a", "", 404, "application/problem+json", problem, false},
		{"problem with a code that is none", "GET", "/v1/topics/a", "", 404, "application/problem+json", strings.Replace(problem, "topic_not_found\"", "gone\"", 2), true},
		{"receive", "POST", "/v1/topics/a/groups/g/receive", `{"max":5,"wait":"1s"}`, 200, "application/json", received, false},
		{"receive without a receipt", "POST", "/v1/topics/a/groups/g/receive", `{}`, 200, "application/json", strings.Replace(received, `"receipt":"r",`, "", 1), true},
		{"an unknown field that was taken", "POST", "/v1/topics/a/groups/g/receive", `{"maximum":5}`, 200, "application/json", received, true},
		{"bad input that was refused", "POST", "/v1/topics/a/groups/g/receive", `{"maximum":5}`, 422, "application/problem+json", strings.ReplaceAll(strings.Replace(problem, "404", "422", 1), "topic_not_found", "validation_failed"), false},
		{"stream", "GET", "/v1/topics/a/messages", "", 200, "application/x-ndjson", "{}\n", false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if b, err := io.ReadAll(r.Body); err != nil || string(b) != c.sent {
				t.Errorf("%s: the server got %q, %v", c.name, b, err)
			}
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.answer)
		}))
		var reports []error
		tr, err := New(http.DefaultTransport, func(err error) { reports = append(reports, err) })
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), c.method, server.URL+c.path, strings.NewReader(c.sent))
		if err != nil {
			t.Fatal(err)
		}
		if c.sent != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		res, err := (&http.Client{Transport: tr}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(res.Body); err != nil || string(b) != c.answer {
			t.Errorf("%s: the caller got %q, %v", c.name, b, err)
		}
		_ = res.Body.Close()
		server.Close()
		if (len(reports) > 0) != c.wrong {
			t.Errorf("%s: %v", c.name, reports)
		}
	}
}
