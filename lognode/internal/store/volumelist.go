package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/splashdam/splashdam/shared/mq"
)

// volumeList is what stands beside a closed volume: what it holds, so that a start need not look into it.
// The active volume gets one at a clean close, with Active set; it is removed before the next append.
type volumeList struct {
	Volume uint32 `json:"volume"`
	Active bool   `json:"active,omitempty"`
	// Replaces are the volumes whose living rest was copied into this one; they go when this one is there.
	Replaces []uint32   `json:"replaces,omitempty"`
	Bytes    int64      `json:"bytes"`
	Parts    []listPart `json:"-"`
	Count    int        `json:"parts"`
}

// listPart is one segment's run of entries in a volume.
type listPart struct {
	Segment    mq.SegmentID `json:"s"`
	Gen        uint64       `json:"g"`
	First      mq.Position  `json:"f"`
	Last       mq.Position  `json:"l"`
	Next       mq.Position  `json:"n"`
	Count      uint64       `json:"c"`
	Bytes      int64        `json:"b"`
	Sum        uint64       `json:"u"`
	FirstStamp int64        `json:"fs"`
	LastStamp  int64        `json:"ls"`
}

// encode makes frames: the header, then the parts, a bounded number in each.
func (l *volumeList) encode() ([]byte, error) {
	l.Count = len(l.Parts)
	head, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("store: volume list: %w", err)
	}
	b := appendFrame(nil, head)
	const perFrame = 4096
	for parts := l.Parts; len(parts) > 0; {
		n := min(perFrame, len(parts))
		body, err := json.Marshal(parts[:n])
		if err != nil {
			return nil, fmt.Errorf("store: volume list: %w", err)
		}
		b = appendFrame(b, body)
		parts = parts[n:]
	}
	return b, nil
}

// decodeList reads what encode made; anything missing or damaged is an error.
func decodeList(b []byte) (*volumeList, error) {
	var l *volumeList
	end, holes, err := readFrames(b, func(body []byte) error {
		if l == nil {
			l = &volumeList{}
			return json.Unmarshal(body, l)
		}
		var parts []listPart
		if err := json.Unmarshal(body, &parts); err != nil {
			return err
		}
		l.Parts = append(l.Parts, parts...)
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("store: volume list: %w", err)
	case l == nil || holes > 0 || end != int64(len(b)) || len(l.Parts) != l.Count:
		return nil, fmt.Errorf("%w: volume list", ErrDamaged)
	}
	return l, nil
}

// readList reads the list of a volume; nil without an error when there is none.
func readList(root string, number uint32) (*volumeList, error) {
	b, err := os.ReadFile(listPath(root, number))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	l, err := decodeList(b)
	if err == nil && l.Volume != number {
		return nil, fmt.Errorf("%w: list of volume %d stands beside volume %d", ErrDamaged, l.Volume, number)
	}
	return l, err
}

func (l *volumeList) write(root string) error {
	b, err := l.encode()
	if err != nil {
		return err
	}
	return writeFileSynced(listPath(root, l.Volume), b)
}

// entry is the part as a line of a list.
func (p *part) entry(id mq.SegmentID, gen uint64) listPart {
	return listPart{
		Segment: id, Gen: gen, First: p.first, Last: p.last, Next: p.next, Count: p.count, Bytes: p.bytes,
		Sum: p.sum, FirstStamp: p.firstStamp, LastStamp: p.lastStamp,
	}
}

// part is the line as a part of the volume.
func (l *listPart) part(v *volume) *part {
	return &part{
		vol: v, first: l.First, last: l.Last, next: l.Next, count: l.Count, bytes: l.Bytes,
		sum: l.Sum, firstStamp: l.FirstStamp, lastStamp: l.LastStamp,
	}
}
