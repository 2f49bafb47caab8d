package main

import (
	"bufio"
	"regexp"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/api"
)

var escapes = regexp.MustCompile("\x1b\\[[0-9]*m")

// On a terminal the same is shown as elsewhere, with colours.
func TestColoursHideNothing(t *testing.T) {
	messages := func(paint painter) string {
		var b strings.Builder
		p := &printer{out: bufio.NewWriter(&b), format: "table", width: 80, paint: paint}
		for _, value := range []string{"one", "two"} {
			if err := p.message(&api.Message{ID: "EAEAAA", Value: value, Encoding: api.EncodingUTF8, Timestamp: noon}); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.flush(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for name, render := range map[string]func(painter) string{
		"messages": messages,
		"trace": func(paint painter) string {
			return renderTrace(&api.Trace{ID: "i", Events: []api.TraceEvent{{At: noon, Type: "PUBLISHED"}, {At: noon, Type: "DEAD"}},
				Groups: []api.TraceGroup{{Group: "g", State: "ready"}, {Group: "h", State: "strange"}}}, 80, paint)
		},
		"topic": func(paint painter) string {
			return renderTopic(&api.Topic{TopicSummary: api.TopicSummary{State: "strange"}}, 80, paint)
		},
		"group": func(paint painter) string { return renderGroup(&api.Group{State: "strange"}, 80, paint) },
		"groups": func(paint painter) string {
			return renderGroups([]api.GroupSummary{{Name: "g", State: "paused"}}, 80, paint)
		},
	} {
		if got, want := escapes.ReplaceAllString(render(colour), ""), render(plain); got != want {
			t.Errorf("%s with colours\n%s\nwithout\n%s", name, got, want)
		}
	}
}
