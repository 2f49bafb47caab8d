package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/splashdam/splashdam"

// file is one Go file of the repository, nested modules included.
type file struct {
	path      string // slash-separated, from the root
	dir       string
	test      bool // named *_test.go
	generated bool
	lines     int
	ast       *ast.File
	imports   []string
}

// root is the repository's directory.
const root = "../.."

var fset = token.NewFileSet()

// sources parses every Go file once for all tests.
var sources = sync.OnceValues(func() ([]*file, error) {
	var out []*file
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			skip := []string{".git", "node_modules", "testdata", "data", "bin"}
			if slices.Contains(skip, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		f, err := parseFile(p)
		if err == nil {
			out = append(out, f)
		}
		return err
	})
	return out, err
})

func parseFile(p string) (*file, error) {
	text, err := os.ReadFile(p)
	if err != nil {
		return nil, err
	}
	tree, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, p)
	if err != nil {
		return nil, err
	}
	f := &file{
		path:      filepath.ToSlash(rel),
		test:      strings.HasSuffix(p, "_test.go"),
		generated: ast.IsGenerated(tree),
		lines:     bytes.Count(text, []byte("\n")),
		ast:       tree,
	}
	f.dir = path.Dir(f.path)
	for _, spec := range tree.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		f.imports = append(f.imports, name)
	}
	return f, nil
}

// files gives the parsed files that want picks; a repository without any is a mistake of the test.
func files(t *testing.T, want func(*file) bool) []*file {
	t.Helper()
	all, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	var out []*file
	for _, f := range all {
		if want(f) {
			out = append(out, f)
		}
	}
	if len(all) < 10 {
		t.Fatalf("only %d Go files under %s", len(all), root)
	}
	return out
}

// within says whether dir or file p is place or lies under it.
func within(p, place string) bool { return p == place || strings.HasPrefix(p, place+"/") }

// withinAny is within for several places.
func withinAny(p string, places ...string) bool {
	return slices.ContainsFunc(places, func(place string) bool { return within(p, place) })
}

// ours gives the directory that an import path of this module means.
func ours(importPath string) (dir string, ok bool) {
	return strings.CutPrefix(importPath, module+"/")
}

// std says whether an import path is of the standard library.
func std(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return !strings.Contains(first, ".")
}

// at is where a node stands, for messages.
func at(n ast.Node) string {
	p := fset.Position(n.Pos())
	rel, err := filepath.Rel(root, p.Filename)
	if err != nil {
		rel = p.Filename
	}
	return filepath.ToSlash(rel) + ":" + strconv.Itoa(p.Line)
}

// calls visits every selector x.y of f where x is the local name of the imported package.
func selectorsOf(f *file, importPath string, visit func(n ast.Node, name string)) {
	local := ""
	for _, spec := range f.ast.Imports {
		if name, err := strconv.Unquote(spec.Path.Value); err != nil || name != importPath {
			continue
		}
		local = path.Base(importPath)
		if spec.Name != nil {
			local = spec.Name.Name
		}
	}
	if local == "" {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == local {
				visit(n, s.Sel.Name)
			}
		}
		return true
	})
}
