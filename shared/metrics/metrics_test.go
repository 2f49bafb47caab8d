package metrics

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestRegistryIsClean(t *testing.T) {
	problems, err := Lint(NewRegistry())
	if err != nil || len(problems) > 0 {
		t.Errorf("problems %q, err %v", problems, err)
	}
}

func TestLintFindsProblems(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(
		prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_things", Help: "A counter without _total."}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "splashdam_helpless_bytes"}),
		prometheus.NewGauge(prometheus.GaugeOpts{Name: "other_bytes", Help: "Not ours by name."}),
	)
	problems, err := Lint(reg)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(problems, "\n")
	for _, want := range []string{"splashdam_things:", "splashdam_helpless_bytes:", "other_bytes: does not begin with"} {
		if !strings.Contains(all, want) {
			t.Errorf("no line with %q in:\n%s", want, all)
		}
	}
}

func TestComponentsShareARegistry(t *testing.T) {
	reg := prometheus.NewRegistry()
	for _, name := range []string{"node-1", "node-2"} {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "splashdam_lognode_appends_total", Help: "Appends."})
		if err := ForComponent(reg, name).Register(c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	families, err := reg.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != 2 {
		t.Errorf("families %v, err %v", families, err)
	}
}

func TestDebugListener(t *testing.T) {
	d, err := Serve("127.0.0.1:0", NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/metrics":      "splashdam_build_info",
		"/livez":        "ok",
		"/debug/pprof/": "goroutine",
	} {
		res, err := http.Get("http://" + d.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != 200 || !strings.Contains(string(body), want) {
			t.Errorf("%s: status %d, err %v, no %q", path, res.StatusCode, err, want)
		}
	}
	if _, err := Serve(d.Addr(), NewRegistry(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a second listener on the same address came up")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + d.Addr() + "/livez"); err == nil {
		t.Error("answers after Close")
	}
}

func TestDebugListenerIsOptional(t *testing.T) {
	d, err := Serve("", NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil || d.Addr() != "" {
		t.Fatalf("addr %q, err %v", d.Addr(), err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestProfilesOnLoopbackOnly(t *testing.T) {
	mux := routes(NewRegistry(), false).(*http.ServeMux)
	req, _ := http.NewRequest("GET", "/debug/pprof/heap", nil)
	if _, pattern := mux.Handler(req); pattern != "" {
		t.Errorf("pprof is served on an open address by %q", pattern)
	}
}
