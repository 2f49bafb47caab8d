package gateway

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/splashdam/splashdam/shared/meta"
)

// Before the first metadata nothing is known, and that is no reason to call a topic missing or a receipt forged:
// consumers take invalid_receipt for final, and the ack would be lost.
func TestNothingIsJudgedBeforeTheFirstMetadata(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	store, err := meta.Connect(t.Context(), []string{"127.0.0.1:1"}, log) // nobody is there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	g, err := New(DefaultConfig(), store, log, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/settle", "/v1/ack", "/v1/topics/t/messages", "/v1/topics/t/groups/g/receive"} {
		w := httptest.NewRecorder()
		g.echo.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(`{"receipt":"x"}`)))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"metadata_unavailable"`) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
