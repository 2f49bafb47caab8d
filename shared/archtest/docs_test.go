package archtest

import (
	"bytes"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	backticks = regexp.MustCompile("`([^`\n]+)`")
	// dotted is Type.Method, pkg.Func, pkg.Type or (*Type).Method, with or without ().
	dotted = regexp.MustCompile(`^\(?\*?([A-Za-z_]\w*)\)?\.([A-Za-z_]\w*)(\(\))?$`)
	// goPath is a Go file or a folder of the repository.
	goPath = regexp.MustCompile(`^(gateway|lognode|coordinator|shared|deploy|loadtest|docs)/[\w./-]*$`)
)

// names holds everything that a document may name: "Type.Method" and "package.Name", for all packages.
func names(t *testing.T) map[string]bool {
	out := map[string]bool{}
	for _, f := range files(t, func(f *file) bool { return !f.test }) {
		pkg := f.ast.Name.Name
		if pkg == "main" {
			pkg = path.Base(f.dir)
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					out[pkg+"."+d.Name.Name] = true
				} else {
					out[receiver(d)+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					addSpec(out, pkg, spec)
				}
			}
		}
	}
	return out
}

func addSpec(out map[string]bool, pkg string, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			out[pkg+"."+n.Name] = true
		}
	case *ast.TypeSpec:
		out[pkg+"."+s.Name.Name] = true
		var fields *ast.FieldList
		switch x := s.Type.(type) {
		case *ast.StructType:
			fields = x.Fields
		case *ast.InterfaceType:
			fields = x.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, n := range field.Names {
				out[s.Name.Name+"."+n.Name] = true
			}
		}
	}
}

func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// The way of a publish must stay walkable: each backticked path is there, and each backticked Type.Func
// or pkg.Func is declared somewhere.
func TestDataPathNamesWhatExists(t *testing.T) {
	text := document(t, "docs/DATA_PATH.md")
	known := names(t)
	functions, paths := 0, 0
	for _, m := range backticks.FindAllStringSubmatch(text, -1) {
		word := m[1]
		switch {
		case goPath.MatchString(word):
			paths++
			if _, err := os.Stat(filepath.Join(root, word)); err != nil {
				t.Errorf("docs/DATA_PATH.md names %s, which is not there", word)
			}
		case strings.HasSuffix(word, ".go"):
			t.Errorf("docs/DATA_PATH.md names %s; give its path from the top", word)
		case dotted.MatchString(word):
			functions++
			p := dotted.FindStringSubmatch(word)
			if !known[p[1]+"."+p[2]] {
				t.Errorf("docs/DATA_PATH.md names %s, which is not declared anywhere", word)
			}
		}
	}
	if functions < 10 || paths < 8 {
		t.Errorf("docs/DATA_PATH.md names %d functions and %d files in backticks; the way of a publish has more", functions, paths)
	}
}

func TestDocumentsNamePathsThatExist(t *testing.T) {
	docs, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(root, "docs/decisions/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range append(append(docs, more...), filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range backticks.FindAllSubmatch(text, -1) {
			word := string(m[1])
			if _, err := os.Stat(filepath.Join(root, word)); goPath.MatchString(word) && err != nil {
				t.Errorf("%s names %s, which is not there", filepath.Base(p), word)
			}
		}
		for _, link := range links.FindAllSubmatch(text, -1) {
			target, _, _ := strings.Cut(string(link[1]), "#")
			if _, err := os.Stat(filepath.Join(filepath.Dir(p), target)); target != "" && err != nil {
				t.Errorf("%s links to %s, which is not there", filepath.Base(p), target)
			}
		}
	}
}

// links are those of a Markdown document that stay inside the repository.
var links = regexp.MustCompile(`\]\(([^):\s]+)\)`)

func TestDocumentsAreThere(t *testing.T) {
	for _, name := range []string{"README.md", "LICENSE", "docs/ARCHITECTURE.md", "docs/DATA_PATH.md",
		"docs/PROTOCOL.md", "docs/API.md", "docs/OPERATIONS.md"} {
		document(t, name)
	}
	if n := bytes.Count([]byte(document(t, "docs/ARCHITECTURE.md")), []byte("\n")); n > 150 {
		t.Errorf("docs/ARCHITECTURE.md has %d lines; an overview has at most 150", n)
	}
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Errorf("%s is missing: %v", name, err)
	}
	return string(text)
}
