package archtest

import (
	"go/ast"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

func TestTopLevelFolders(t *testing.T) {
	allowed := []string{
		"gateway", "lognode", "coordinator", "shared", "deploy", "loadtest", "docs",
		"go.mod", "go.sum", "README.md", "LICENSE",
		"data", "bin", // made by running it, and ignored by git
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(allowed, e.Name()) {
			t.Errorf("%s at the top: the top holds %s and dotfiles", e.Name(), strings.Join(allowed[:11], ", "))
		}
	}
}

func TestPackagesHaveDocs(t *testing.T) {
	docs := map[string]string{} // directory -> doc comment
	for _, f := range files(t, func(f *file) bool { return !f.test }) {
		docs[f.dir] += f.ast.Doc.Text()
	}
	for dir, doc := range docs {
		if len(doc) < 40 {
			t.Errorf("package %s has no doc comment that says what it is for", dir)
		}
	}
}

func TestPackageNamesSayWhat(t *testing.T) {
	for _, f := range files(t, func(*file) bool { return true }) {
		empty := []string{"util", "utils", "common", "types", "models", "helpers", "misc", "base"}
		if slices.Contains(empty, f.ast.Name.Name) {
			t.Errorf("%s: a package named %s can hold anything", f.path, f.ast.Name.Name)
		}
	}
}

func TestFilesAreOneIdea(t *testing.T) {
	const most = 500
	for _, f := range files(t, func(f *file) bool { return !f.generated }) {
		if f.lines > most {
			t.Errorf("%s has %d lines, at most %d", f.path, f.lines, most)
		}
	}
}

func TestNobodyEndsTheProcessButMain(t *testing.T) {
	for _, f := range files(t, func(f *file) bool { return path.Base(f.path) != "main.go" }) {
		selectorsOf(f, "os", func(n ast.Node, name string) {
			if name == "Exit" && !f.test { // a TestMain is a main
				t.Errorf("%s: os.Exit outside a main.go", at(n))
			}
		})
		selectorsOf(f, "log", func(n ast.Node, name string) {
			t.Errorf("%s: log.%s; a *slog.Logger is passed in", at(n), name)
		})
	}
}

func TestNoInitFunctions(t *testing.T) {
	for _, f := range files(t, func(f *file) bool { return !f.generated }) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s: init has effects that nobody asked for", at(fn))
			}
		}
	}
}

// In a synctest bubble time.Sleep passes fake time and proves something; anywhere else it is a guess.
func TestTestsDoNotSleepOrSkip(t *testing.T) {
	for _, f := range files(t, func(f *file) bool { return f.test }) {
		if !slices.Contains(f.imports, "testing/synctest") {
			selectorsOf(f, "time", func(n ast.Node, name string) {
				if name == "Sleep" {
					t.Errorf("%s: time.Sleep in a test; wait for a signal", at(n))
				}
			})
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			s, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && slices.Contains([]string{"t", "b", "f", "tb"}, x.Name) {
				t.Errorf("%s: a test that skips proves nothing", at(n))
			}
			return true
		})
	}
}

func TestNothingIsLeftForLater(t *testing.T) {
	marks := []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"}
	for _, f := range files(t, func(f *file) bool { return !f.generated }) {
		for _, group := range f.ast.Comments {
			for _, word := range strings.FieldsFunc(group.Text(), notLetter) {
				if slices.Contains(marks, word) {
					t.Errorf("%s: a comment says %s", at(group), word)
				}
			}
		}
	}
}

func notLetter(r rune) bool { return (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') }

// Exported names of library packages say what they are for. One comment may stand over a pair of functions on
// neighbouring lines, if it names both.
func TestPublicNamesHaveDocs(t *testing.T) {
	library := func(f *file) bool { return !f.test && !f.generated && f.ast.Name.Name != "main" }
	for _, f := range files(t, library) {
		above, end := "", 0 // the comment over the function before, and that function's last line
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				doc := d.Doc.Text()
				if line := fset.Position(d.Pos()).Line; doc == "" && line == end+1 && strings.Contains(above, d.Name.Name) {
					doc = above
				}
				above, end = doc, fset.Position(d.End()).Line
				if d.Name.IsExported() && exportedReceiver(d) && doc == "" && !ofAnInterface(d.Name.Name) {
					t.Errorf("%s: %s has no doc comment", at(d), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					s, ok := spec.(*ast.TypeSpec)
					if ok && s.Name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
						t.Errorf("%s: %s has no doc comment", at(s), s.Name.Name)
					}
				}
			}
		}
	}
}

// ofAnInterface are method names whose meaning the standard library has fixed.
func ofAnInterface(name string) bool {
	return slices.Contains([]string{"Error", "String", "Unwrap", "Is", "Len", "Less", "Swap", "Push", "Pop",
		"Close", "Read", "Write", "Name", "Marshal", "Unmarshal", "MarshalText", "UnmarshalText", "MarshalJSON",
		"UnmarshalJSON", "AppendTo", "Describe", "Collect"}, name)
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}
