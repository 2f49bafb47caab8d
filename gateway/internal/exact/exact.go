// Package exact writes what users chose into HTTP headers so that it arrives as it was: what HTTP would change
// on its way is encoded, and another header says so.
package exact

import (
	"fmt"
	"net/http"
	"strings"
)

// Escaped names the headers whose values are percent-encoded.
const Escaped = "Mq-Escaped"

// Add adds a header whose value is a user's. What HTTP can't carry (control characters, white space at the
// ends) net/http would change without a word, or clients refuse the answer for it and never get the message:
// such a value is percent-encoded, and Escaped names the header.
func Add(h http.Header, name, value string) {
	if carried(value) {
		h.Add(name, value)
		return
	}
	b := make([]byte, 0, len(value)+16)
	for i := range len(value) {
		if c := value[i]; c <= ' ' || c == 0x7f || c == '%' {
			b = fmt.Appendf(b, "%%%02X", c)
		} else {
			b = append(b, c)
		}
	}
	h.Add(name, string(b))
	h.Add(Escaped, name)
}

// carried says that a header's value arrives as it is.
func carried(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return strings.Trim(value, " ") == value
}
