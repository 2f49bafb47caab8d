package mq

import (
	"strings"
	"testing"
)

// The cases are those of the recommendation, https://www.w3.org/TR/trace-context/.
func TestValidTraceparent(t *testing.T) {
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for v, want := range map[string]bool{
		"00-" + trace + "-" + parent + "-01":                             true,
		"00-" + trace + "-" + parent + "-00":                             true,
		"cc-" + trace + "-" + parent + "-01":                             true,
		"cc-" + trace + "-" + parent + "-01-what-comes":                  true,
		"cc-" + trace + "-" + parent + "-01.what-comes":                  false,
		"00-" + trace + "-" + parent + "-01-what-comes":                  false,
		"ff-" + trace + "-" + parent + "-01":                             false,
		"00-" + strings.Repeat("0", 32) + "-" + parent + "-01":           false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01":            false,
		"00-" + strings.ToUpper(trace) + "-" + parent + "-01":            false,
		"00-" + trace + "-" + parent:                                     false,
		"00-" + trace + "_" + parent + "-01":                             false,
		"":                                                               false,
		"cc-" + trace + "-" + parent + "-01-" + strings.Repeat("x", 300): false,
	} {
		if ValidTraceparent(v) != want {
			t.Errorf("%q: %t", v, !want)
		}
	}
}
