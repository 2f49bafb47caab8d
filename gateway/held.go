package gateway

import (
	"encoding/binary"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/cursor"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

// heldPlace is where a listing of what a group holds stands: partition by partition, by offset.
type heldPlace struct {
	topic     mq.TopicID
	group     mq.GroupID
	state     string
	filter    *mqpb.DeadFilter
	only      int64 // the one partition that is listed, or -1
	partition uint32
	offset    uint64
	end       uint32 // the first partition that is not listed
}

func (h *heldPlace) inside() bool { return h.partition < h.end }

// next moves past a page, to the offset that its leader named, or with 0 to the next partition.
func (h *heldPlace) next(offset uint64) {
	if h.offset = offset; offset == 0 {
		h.partition++
	}
}

// scope binds a cursor to what is listed.
func (h *heldPlace) scope() string {
	return strconv.FormatUint(uint64(h.topic), 10) + "/" + strconv.FormatUint(uint64(h.group), 10) + "/" + h.state + "/" + strconv.FormatInt(h.only, 10) + filterScope(h.filter)
}

// heldFrom is where the request's listing begins or goes on.
func (g *Gateway) heldFrom(c echo.Context, t meta.Topic, group mq.GroupID, state string, only int64, filter *mqpb.DeadFilter) (*heldPlace, error) {
	at := &heldPlace{topic: t.ID, group: group, state: state, filter: filter, only: only, end: t.Settings.Partitions}
	if only >= 0 {
		if uint32(only) >= at.end {
			return nil, mqerr.New(mqerr.PartitionNotFound, "topic %q has the partitions 0 to %d, not %d", t.Name, at.end-1, only)
		}
		at.partition, at.end = uint32(only), uint32(only)+1
	}
	payload, err := g.queryCursor(c, cursor.Held, at.scope())
	if err != nil || payload == nil {
		return at, err
	}
	r := mq.NewReader(payload)
	at.partition, at.offset = r.Uint32(), r.Uvarint()
	if r.Err() != nil || r.Len() != 0 {
		return nil, mqerr.New(mqerr.InvalidCursor, "the cursor is of another version")
	}
	return at, nil
}

func (g *Gateway) sealHeld(at *heldPlace) (string, error) {
	payload := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(at.partition)), at.offset)
	return g.sealCursor(cursor.Held, at.scope(), payload)
}
