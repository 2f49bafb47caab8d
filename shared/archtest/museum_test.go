package archtest

import (
	"fmt"
	"go/ast"
	"strings"
	"testing"
)

// rows is how many faults of other systems the design page museum.md lists.
const rows = 46

// Each of them is a regression test that is named after its row: TestMuseumNN and what is meant.
func TestEachRowOfTheMuseumIsATest(t *testing.T) {
	named := map[string]bool{}
	for _, f := range files(t, func(f *file) bool { return f.test }) {
		for _, d := range f.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "TestMuseum") && len(fn.Name.Name) > 12 {
				named[fn.Name.Name[10:12]] = true
			}
		}
	}
	for row := 1; row <= rows; row++ {
		if !named[fmt.Sprintf("%02d", row)] {
			t.Errorf("no test is named TestMuseum%02d...", row)
		}
	}
}
