package mqerr

import (
	"errors"
	"fmt"
	"regexp"
	"testing"
)

func TestTableIsWhole(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	for _, c := range Codes() {
		if !name.MatchString(c.String()) || seen[c.String()] {
			t.Errorf("code %d has the name %q", c, c)
		}
		seen[c.String()] = true
		if s := c.Status(); s < 400 || s > 599 || c.Title() == "" {
			t.Errorf("%s: status %d, title %q", c, s, c.Title())
		}
		if c.Retryable() && c.Status() < 500 && c.Status() != 409 && c.Status() != 429 && c.Status() != 499 {
			t.Errorf("%s: the same request again would be refused again", c)
		}
	}
	if OK.Status() != 200 || Code(9999).Status() != 500 || Code(9999).Retryable() {
		t.Error("OK and unknown codes")
	}
}

func TestCodesAreFoundInChains(t *testing.T) {
	cause := errors.New("cause")
	err := fmt.Errorf("outer: %w", New(NoQuorum, "inner: %w", cause))
	if !Is(err, NoQuorum) || Is(err, NoLeader) || !errors.Is(err, cause) || Of(err).Code != NoQuorum {
		t.Fatal(err)
	}
	if Of(nil) != nil || Of(cause).Code != Internal {
		t.Fatal("errors without a code are internal")
	}
}
