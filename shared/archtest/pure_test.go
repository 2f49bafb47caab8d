package archtest

import (
	"go/ast"
	"slices"
	"testing"
)

// pure are the packages (and files) that decide: they are given the time and the facts, and answer.
var pure = []string{
	"gateway/internal/rebuild", "lognode/internal/segment", "lognode/internal/delivery", "lognode/internal/wheel",
	"lognode/internal/footer", "lognode/internal/schedule", "lognode/internal/dedup", "lognode/internal/slow",
	"coordinator/internal/placement", "coordinator/internal/assign", "coordinator/internal/seal/decide.go", "coordinator/internal/seal/plan.go",
	"coordinator/internal/seal/history.go", "coordinator/internal/seal/blame.go",
	"shared/mq",
}

// notYet are those of pure that come with a later issue.
var notYet []string

// impure are packages that do I/O, hold time or chance, or share memory; everything below them too.
var impure = []string{
	"context", "net", "os", "sync", "log", "io/fs", "io/ioutil", "path/filepath", "runtime", "syscall",
	"math/rand", "math/rand/v2", "crypto/rand", "testing", "unsafe",
}

// clocks are the functions of package time that look at or wait for the real clock.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

func isPure(f *file) bool { return !f.test && withinAny(f.path, pure...) }

func TestPurePackagesExist(t *testing.T) {
	for _, p := range pure {
		n := len(files(t, func(f *file) bool { return within(f.path, p) }))
		if n == 0 && !slices.Contains(notYet, p) {
			t.Errorf("no Go file in %s: the rules for it check nothing", p)
		}
	}
}

func TestPurePackagesImportNothingImpure(t *testing.T) {
	for _, f := range files(t, isPure) {
		for _, name := range f.imports {
			if name == "net/netip" || name == "net/url" { // values only
				continue
			}
			if withinAny(name, impure...) {
				t.Errorf("%s imports %s: a pure package does no I/O and has no clock, chance or lock", f.path, name)
			}
			if dir, ok := ours(name); ok && !withinAny(dir, append(pure, "shared/mqerr", "shared/frame")...) {
				t.Errorf("%s imports %s, which is not pure", f.path, name)
			}
		}
	}
}

func TestPurePackagesHaveNoClock(t *testing.T) {
	for _, f := range files(t, isPure) {
		selectorsOf(f, "time", func(n ast.Node, name string) {
			if slices.Contains(clocks, name) {
				t.Errorf("%s: time.%s in a pure package; the time is an argument", at(n), name)
			}
		})
	}
}

func TestPurePackagesStartNoGoroutine(t *testing.T) {
	for _, f := range files(t, isPure) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine in a pure package", at(n))
			case *ast.ChanType:
				t.Errorf("%s: a channel in a pure package", at(n))
			}
			return true
		})
	}
}
