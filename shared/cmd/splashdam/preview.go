package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/splashdam/splashdam/shared/api"
)

// change makes an update and shows what came of it; dry only asks what it would change.
func change[T any](s *session, dry bool, preview func(context.Context) (api.ConfigChange, error), update func(context.Context) (T, error), render func(*T) string) error {
	ctx, cancel := s.call()
	defer cancel()
	if dry {
		out, err := preview(ctx)
		if err != nil {
			return err
		}
		return s.showChange(&out)
	}
	out, err := update(ctx)
	if err != nil {
		return err
	}
	return s.show(out, func() string { return render(&out) })
}

// showChange shows what an update would change, and marks what would remove something.
func (s *session) showChange(c *api.ConfigChange) error {
	return s.show(c, func() string { return renderChange(c, s.width, s.painter()) })
}

func renderChange(c *api.ConfigChange, width int, paint painter) string {
	if len(c.Changes) == 0 {
		return "nothing would change\n"
	}
	t := table{headers: []string{"SETTING", "NOW", "THEN", ""}}
	for _, one := range c.Changes {
		note := ""
		if one.Removes {
			note = paint(styleWarn, "removes what is beyond it")
		}
		t.rows = append(t.rows, []string{one.Setting, settingText(one.From), settingText(one.To), note})
	}
	return t.render(width, paint) + renderRemoval(c.Removal, paint)
}

// renderRemoval tells how much retention would remove by what would change; nil is nothing to tell.
func renderRemoval(r *api.Removal, paint painter) string {
	if r == nil {
		return ""
	}
	var b strings.Builder
	note := ""
	if r.Partial {
		note = " (not all partitions are counted)"
	}
	fmt.Fprintf(&b, "\nMESSAGES  %d%s\nSEGMENTS  %d\nSIZE      %s on each replica, at most\n", r.Messages, note, r.Segments, size(r.Bytes))
	for _, p := range r.Partitions {
		if p.Error != nil {
			b.WriteString(paint(styleWarn, fmt.Sprintf("partition %d is not counted", p.Partition)) + ": " + p.Error.Detail + "\n")
		} else if p.KeptFor != "" {
			fmt.Fprintf(&b, "partition %d keeps the rest for group %s\n", p.Partition, p.KeptFor)
		}
	}
	return b.String()
}

// settingText writes a setting: texts as they are, the rest as JSON.
func settingText(value any) string {
	switch v := value.(type) {
	case nil:
		return "-"
	case string:
		return orDash(v)
	}
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(b)
}
