package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// SeekTarget is where a group goes: At alone ("earliest" or "latest"), or one of the others. In JSON it is a text, or an
// object: {"time":…}, {"offset":…,"partition":…} or {"snapshot":…}.
type SeekTarget struct {
	At        string
	Time      time.Time
	Offset    uint64
	Partition *uint32 // which goes to Offset; the others stay
	Snapshot  string
}

// errSeekTarget says what a target looks like.
var errSeekTarget = errors.New(`must be "earliest", "latest", {"time": …}, {"offset": …, "partition": …} or {"snapshot": …}`)

// seekObject is the form of the targets that are no text.
type seekObject struct {
	Time      *time.Time `json:"time,omitempty"`
	Offset    *uint64    `json:"offset,omitempty"`
	Partition *uint32    `json:"partition,omitempty"`
	Snapshot  *string    `json:"snapshot,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (t SeekTarget) MarshalJSON() ([]byte, error) {
	switch {
	case t.At != "":
		return json.Marshal(t.At)
	case t.Snapshot != "":
		return json.Marshal(seekObject{Snapshot: &t.Snapshot})
	case t.Partition != nil:
		return json.Marshal(seekObject{Offset: &t.Offset, Partition: t.Partition})
	}
	return json.Marshal(seekObject{Time: &t.Time})
}

// UnmarshalJSON implements json.Unmarshaler: exactly one target, and nothing else.
func (t *SeekTarget) UnmarshalJSON(b []byte) error {
	*t = SeekTarget{}
	if json.Unmarshal(b, &t.At) == nil {
		if t.At != "earliest" && t.At != "latest" {
			return errSeekTarget
		}
		return nil
	}
	var names map[string]json.RawMessage
	var o seekObject
	if json.Unmarshal(b, &names) != nil {
		return errSeekTarget
	}
	if json.Unmarshal(b, &o) != nil { // the decoder's words would be about Go
		if at := names["time"]; len(names) == 1 && at != nil {
			return fmt.Errorf("a time looks like 2026-01-31T12:00:00Z (RFC 3339), and not like %.40s", at)
		}
		return errSeekTarget
	}
	switch {
	case len(names) == 1 && o.Time != nil && !o.Time.IsZero():
		t.Time = *o.Time
	case len(names) == 1 && o.Snapshot != nil && *o.Snapshot != "":
		t.Snapshot = *o.Snapshot
	case len(names) == 2 && o.Offset != nil && o.Partition != nil:
		t.Offset, t.Partition = *o.Offset, o.Partition
	default:
		return errSeekTarget
	}
	return nil
}

// SeekRequest is the body of POST …/groups/{g}/seek.
type SeekRequest struct {
	To SeekTarget `json:"to"`
}

// SeekFigures count what a seek changes.
type SeekFigures struct {
	Lag       uint64 `json:"lag"`        // not settled after it
	Again     uint64 `json:"again"`      // of that, what was settled or dead before
	Skipped   uint64 `json:"skipped"`    // what was not settled, and is after it
	InFlight  uint64 `json:"in_flight"`  // leases that end
	DeadAgain uint64 `json:"dead_again"` // dead letters that are delivered again
}

// SeekResult says what a seek did, or with DryRun would do.
type SeekResult struct {
	DryRun bool `json:"dry_run"`
	SeekFigures
	Partial    bool            `json:"partial,omitempty"` // a partition has an error and is where it was
	Partitions []SeekPartition `json:"partitions"`
}

// SeekPartition is what a seek does in one partition.
type SeekPartition struct {
	Partition uint32 `json:"partition"`
	From      uint64 `json:"from"` // the lowest offset that is not settled, before
	To        uint64 `json:"to"`   // and after
	SeekFigures
	Error *ItemError `json:"error,omitempty"`
}

// SnapshotInput is the body of POST …/groups/{g}/snapshots.
type SnapshotInput struct {
	Name string `json:"name"`
}

// Snapshot is a named copy of what a group has settled.
type Snapshot struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Bytes   uint64    `json:"bytes"` // of the partitions' state, about
	// Partitions are those that have it; one that was added later begins at its first message.
	Partitions []SnapshotPartition `json:"partitions"`
	// DryRun: the answer to a DELETE that only says what it would forget.
	DryRun bool `json:"dry_run,omitempty"`
}

// SnapshotPartition is a snapshot in one partition.
type SnapshotPartition struct {
	Partition uint32 `json:"partition"`
	Offset    uint64 `json:"offset"` // the lowest that was not settled, or dead
}

// SnapshotList is the answer to GET …/groups/{g}/snapshots: all of them, by name.
type SnapshotList struct {
	Snapshots []Snapshot `json:"snapshots"`
	Partial   bool       `json:"partial,omitempty"` // some leaders did not answer
}
