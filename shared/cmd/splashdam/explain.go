package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/splashdam/splashdam/shared/api"
)

type explainCmd struct {
	ID    string `arg:"" help:"Message id."`
	Group string `short:"g" required:"" help:"The group that does not get it."`
}

func (e *explainCmd) Run(s *session) error {
	ctx, cancel := s.call()
	defer cancel()
	out, err := s.client.Explain(ctx, e.ID, e.Group)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return renderExplain(&out, s.width, s.painter()) })
}

// renderExplain is a sentence, and what a retry would be about.
func renderExplain(e *api.Explanation, width int, paint painter) string {
	text := wrap(oneLine(e.State+": "+e.Because), width)
	if rest, ok := strings.CutPrefix(text, e.State); ok {
		text = paint(styleOf(e.State), e.State) + rest
	}
	if e.State == "ready" && e.Reason != "" {
		text += "\n" + wrap(oneLine(fmt.Sprintf("attempt %d failed: %s", e.Attempt, e.Reason)), width)
	}
	return text + "\n"
}

// wrap breaks a line between words so that each part fits width where its words do; 0 is no bound.
func wrap(line string, width int) string {
	if width <= 0 {
		return line
	}
	var b strings.Builder
	n := 0
	for i, word := range strings.Split(line, " ") {
		size := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case n+1+size > width:
			b.WriteByte('\n')
			n = 0
		default:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += size
	}
	return b.String()
}
