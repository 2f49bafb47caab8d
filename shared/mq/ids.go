package mq

import (
	"fmt"
	"strconv"
)

// TopicID, GroupID and SegmentID come from counters in etcd, begin at 1 and are never used again.
type (
	TopicID   uint64
	GroupID   uint64
	SegmentID uint64
)

// PartitionID names one ordered stream: a topic and its partition number, counted from 0.
type PartitionID struct {
	Topic  TopicID `json:"topic"`
	Number uint32  `json:"number"`
}

// String is for logs: "7/0" is partition 0 of topic 7.
func (p PartitionID) String() string {
	return strconv.FormatUint(uint64(p.Topic), 10) + "/" + strconv.FormatUint(uint64(p.Number), 10)
}

// StoreID is 32 hex digits, made at random with a data directory. A node that lost its directory has
// another one and therefore is another replica.
type StoreID string

// Incarnation is one run of one store. The boot number rises at each start, on disk first, then in
// etcd, so that a directory put back from an old copy is noticed.
type Incarnation struct {
	Store StoreID `json:"store"`
	Boot  uint64  `json:"boot"`
}

// String is for logs.
func (i Incarnation) String() string { return fmt.Sprintf("%.8s#%d", string(i.Store), i.Boot) }
