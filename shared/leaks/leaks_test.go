package leaks

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// A goroutine that ends late is waited for, longer than goleak does; one that does not end is named.
func TestLeft(t *testing.T) {
	before := goleak.IgnoreCurrent()
	ended := make(chan struct{})
	go func() {
		for range 2 { // each takes as long as goleak waits for what does not end: this test
			if goleak.Find() == nil {
				t.Error("the test itself is not found")
			}
		}
		close(ended)
	}()
	if err := Left(before); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	default:
		t.Error("one that was to be waited for still runs")
	}

	stays := make(chan struct{})
	defer close(stays)
	go func() { <-stays }()
	if err := leftAfter(0, []goleak.Option{before}); err == nil || !strings.Contains(err.Error(), "TestLeft") {
		t.Errorf("one that stays: %v", err)
	}
}
