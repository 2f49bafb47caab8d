package archtest

import (
	"strings"
	"testing"
)

var components = []string{"gateway", "lognode", "coordinator"}

// only lists who may import what, tests aside where tests says so. A prefix stands for all below it.
var only = []struct {
	what  string
	where []string
	tests bool // whether test files elsewhere may import it too, to have a real peer
	why   string
}{
	{"github.com/labstack/echo", []string{"gateway"}, false, "Echo is the gateway's"},
	{"github.com/dgraph-io/badger", []string{"lognode/internal/store"}, false, "the store alone knows Badger"},
	{"gocloud.dev", []string{"lognode/internal/archive"}, false, "the archive alone knows buckets"},
	{"go.etcd.io/etcd/server", []string{"coordinator"}, true, "the coordinator alone runs etcd"},
	{"github.com/nats-io/nats-server", []string{"coordinator"}, true, "the coordinator alone runs NATS"},
	{"go.etcd.io/etcd/client", []string{"shared/meta", "coordinator"}, true, "every etcd key is typed in shared/meta"},
	{"github.com/nats-io/nats.go", []string{"shared/bus", "coordinator"}, true, "wake-ups go through shared/bus"},
	{"github.com/bytedance/sonic", []string{"gateway"}, true, "JSON stands behind an interface of ours"},
	{module + "/gateway", []string{"gateway", "deploy", "loadtest"}, false, "components meet on the wire"},
	{module + "/lognode", []string{"lognode", "deploy", "loadtest"}, false, "components meet on the wire"},
	{module + "/coordinator", []string{"coordinator", "deploy", "loadtest"}, false, "components meet on the wire"},
	{module + "/deploy", []string{"deploy", "loadtest"}, false, "nothing that runs depends on how it is run"},
	{module + "/deploy/wallclock", []string{"deploy/wallclock"}, true, "a clock that can be made wrong is for tests"},
	{module + "/loadtest", []string{"loadtest", "deploy"}, false, "the load generator is nobody's library"},
	{module + "/shared/client", []string{"shared/client", "shared/cmd", "deploy", "loadtest"}, true, "the SDK is for users"},
	{module + "/shared/mqpb", protobufUsers, false, "generated types stop at servers and clients of the wire"},
	{"testing", nil, true, "test code stays out of what runs"},
	{"math/rand", []string{"-"}, false, "math/rand/v2 is the one to use"},
}

// protobufUsers are the ends of the wire: everything else speaks in mq's words. What decides or stores
// (segment, delivery, wheel, store, meta, placement, the public JSON) must never be on this list.
var protobufUsers = []string{
	"shared/mqpb", "shared/link",
	"lognode/*", "lognode/internal/replica", // the server, and the calls between log nodes
	"gateway/*", "gateway/internal/router", // the client of control calls
	"coordinator/internal/seal/calls.go", "coordinator/fakenode_test.go",
	"shared/archtest", // compares the generated code with its source
}

// tests of the two ends of the wire play the other end.
func playsAPeer(f *file) bool { return f.test && withinAny(f.path, components...) }

// placed says whether f is in one of the places: a file, a folder and all below, or "folder/*" for the
// files of one folder only.
func placed(f *file, where []string) bool {
	for _, place := range where {
		if dir, flat := strings.CutSuffix(place, "/*"); flat && f.dir == dir || within(f.path, place) {
			return true
		}
	}
	return false
}

func TestOnlyItsOwnersImport(t *testing.T) {
	for _, f := range files(t, func(*file) bool { return true }) {
		for _, rule := range only {
			if placed(f, rule.where) || rule.tests && f.test || rule.what == module+"/shared/mqpb" && playsAPeer(f) {
				continue
			}
			for _, name := range f.imports {
				if name == rule.what || strings.HasPrefix(name, rule.what+"/") && rule.what != "math/rand" {
					t.Errorf("%s imports %s: %s", f.path, name, rule.why)
				}
			}
		}
	}
}

func TestVocabularyImportsOnlyTheStandardLibrary(t *testing.T) {
	for _, f := range files(t, func(f *file) bool { return within(f.dir, "shared/mq") && !f.test }) {
		for _, name := range f.imports {
			if !std(name) {
				t.Errorf("%s imports %s: shared/mq is for everyone", f.path, name)
			}
		}
	}
}

// A component has its own shared words only through shared: internal packages of one are closed to the
// others by the compiler already; this closes the public ones too, in tests as well.
func TestSharedImportsNoComponent(t *testing.T) {
	for _, f := range files(t, func(f *file) bool { return within(f.dir, "shared") }) {
		for _, name := range f.imports {
			if dir, ok := ours(name); ok && !within(dir, "shared") {
				t.Errorf("%s imports %s: shared stands below the components", f.path, name)
			}
		}
	}
}

func TestMainsAreThin(t *testing.T) {
	for _, f := range files(t, func(f *file) bool { return f.ast.Name.Name == "main" && !f.test }) {
		if withinAny(f.dir, components...) && (!strings.HasSuffix(f.path, "/main.go") || f.lines > 120) {
			t.Errorf("%s (%d lines): a component is a library, its main is one short main.go", f.path, f.lines)
		}
	}
}
