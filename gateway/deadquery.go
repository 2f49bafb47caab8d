package gateway

import (
	"fmt"
	"math"
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
	f, query := unsaidFilter(), c.QueryParams()
	if query.Has("reason") {
		f.Reason = query.Get("reason")
	}
	var err error
	if f.DiedAfter, err = queryTime(c, "died_after", f.DiedAfter); err != nil {
		return nil, err
	}
	if f.DiedBefore, err = queryTime(c, "died_before", f.DiedBefore); err != nil {
		return nil, err
	}
	if v, ok := query["key"]; ok {
		f.Key = &v[0]
	}
	if v, ok := query["ids"]; ok {
		f.IDs = strings.Split(v[0], ",")
	}
	return f, nil
}

// queryTime reads a time from the query, or is unsaid without one.
func queryTime(c echo.Context, name string, unsaid time.Time) (time.Time, error) {
	query := c.QueryParams()
	if !query.Has(name) {
		return unsaid, nil
	}
	t, err := time.Parse(time.RFC3339, query.Get(name))
	if err != nil || !canDie(t) {
		return time.Time{}, badParameter("query/"+name, "must be a time like 2026-01-31T12:00:00Z, not %.40q", query.Get(name))
	}
	return t, nil
}

// What no caller can say: bytes that are not UTF-8, and a time before those that RFC 3339 can write.
const unsaidReason = "\xff"

var unsaidTime = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)

// unsaidLimit is the limit of a redrive where none is said: more than there can be. 0 is mostly a count that came out
// empty in somebody's script, and must not mean all of them.
const unsaidLimit = math.MaxUint64

// unsaidRate is the rate of a redrive where none is said: JSON can't say it. 0 must not mean all at once.
var unsaidRate = math.Inf(-1)

// unsaidFilter is a filter in which nothing is said yet. It is told from what is said and empty, because that is mostly
// a variable that somebody's script forgot to set, and must not choose all dead letters.
func unsaidFilter() *api.DeadFilter {
	return &api.DeadFilter{Reason: unsaidReason, DiedAfter: unsaidTime, DiedBefore: unsaidTime}
}

// checkSaid refuses what is said and empty or out of range, and makes what is unsaid the zero value.
func checkSaid(f *api.DeadFilter, at string) error {
	switch f.Reason {
	case "":
		return validation(mq.FieldError{Pointer: at + "/reason", Detail: "must not be empty: leave it out for any reason"})
	case unsaidReason:
		f.Reason = ""
	}
	for name, t := range map[string]*time.Time{"died_after": &f.DiedAfter, "died_before": &f.DiedBefore} {
		if t.Equal(unsaidTime) {
			*t = time.Time{}
		} else if !canDie(*t) {
			return validation(mq.FieldError{Pointer: at + "/" + name, Detail: "must be in the years 1970 to 2261"})
		}
	}
	return nil
}

// canDie says whether something can have died at t: it has Unix nanoseconds, and they are not 0, which means no bound.
func canDie(t time.Time) bool {
	return t.After(time.Unix(0, 0)) && !t.After(time.Unix(0, math.MaxInt64))
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
	history, err := queryBool(c, "history")
	if err != nil {
		return err
	}
	list := heldListing{state: "dead", filter: w.filter, most: maxPage, page: maxPage}
	if history {
		list.most, list.page, list.more = maxHistories, historyPage, g.addHistories
	}
	return g.listHeld(c, &list)
}

// filterScope binds a cursor to what its listing was filtered by.
func filterScope(f *mqpb.DeadFilter) string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf("/%q/%d/%d/%t/%q", f.GetReason(), f.GetSince(), f.GetBefore(), f.GetByKey(), f.GetKey())
}
