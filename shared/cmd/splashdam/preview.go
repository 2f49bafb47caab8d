package main

import (
	"encoding/json"
	"fmt"

	"github.com/splashdam/splashdam/shared/api"
)

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
	return t.render(width, paint)
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
