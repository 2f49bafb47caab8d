package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// An error has no name of a package of the SDK in it, at the front or within.
func TestFaultHasNoPackages(t *testing.T) {
	inner := errors.New("client: no answer from the gateway http://g within 8s")
	for _, err := range []error{inner, fmt.Errorf("outcome_unknown: no answer came: %w", inner)} {
		if got := fault(err); strings.Contains(got, "client:") || !strings.HasPrefix(got, "splashdam: ") {
			t.Errorf("%q", got)
		}
	}
}

// What is told beside the work fits 80 columns, too.
func TestNotesFit(t *testing.T) {
	var b bytes.Buffer
	(&notes{w: &b, at: map[string]time.Time{}}).trying(errors.New("no_quorum: partition 3 of topic orders: node node-3: fewer than 2 of 3 replicas answer"), "trying again")
	for _, line := range strings.Split(b.String(), "\n") {
		if len(line) > 80 {
			t.Errorf("%q has %d columns", line, len(line))
		}
	}
	if !strings.HasSuffix(b.String(), "trying\n  again\n") && !strings.HasSuffix(b.String(), "trying again\n") {
		t.Errorf("%q", b.String())
	}
}
