package gateway

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// queryDeadFilter reads a filter from the query, where DELETE has it.
func queryDeadFilter(c echo.Context) (*api.DeadFilter, error) {
	f := &api.DeadFilter{Reason: c.QueryParam("reason")}
	var err error
	if f.DiedAfter, err = queryTime(c, "died_after"); err != nil {
		return nil, err
	}
	if f.DiedBefore, err = queryTime(c, "died_before"); err != nil {
		return nil, err
	}
	query := c.QueryParams()
	if v, ok := query["key"]; ok {
		f.Key = &v[0]
	}
	if v, ok := query["ids"]; ok {
		f.IDs = strings.Split(v[0], ",")
	}
	return f, nil
}

// queryTime reads a time from the query; the zero time is none.
func queryTime(c echo.Context, name string) (time.Time, error) {
	text := c.QueryParam(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err == nil {
		if bad := checkStart("", mq.Start{Time: t}); bad != nil {
			err = bad
		}
	}
	if err != nil {
		return time.Time{}, badParameter("query/"+name, "must be a time like 2026-01-31T12:00:00Z, not %.40q", text)
	}
	return t, nil
}

// ascending sorts offsets and drops what is there twice.
func ascending(offsets []uint64) []uint64 {
	slices.Sort(offsets)
	return slices.Compact(offsets)
}

// handleDeadMessages lists a group's dead letters.
func (g *Gateway) handleDeadMessages(c echo.Context) error {
	f, err := queryDeadFilter(c)
	if err != nil {
		return err
	}
	w := deadWork{}
	if err := w.choose(f, "query"); err != nil {
		return err
	}
	return g.listHeld(c, "dead", w.filter)
}

// filterScope binds a cursor to what its listing was filtered by.
func filterScope(f *mqpb.DeadFilter) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("/%q/%d/%d", f.GetReason(), f.GetSince(), f.GetBefore())
}
