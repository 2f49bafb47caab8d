package api

import "time"

// JoinInput is the body of POST /v1/topics/{t}/groups/{g}/members. All fields are optional, and so is the body.
type JoinInput struct {
	// Name is the member's, unique in the group: who joins under it again, after a restart for example, is the same
	// member and keeps its partitions. Default: a random one.
	Name string `json:"name,omitempty"`
	// Zone is where the member runs: of what needs an owner it gets partitions whose leaders are there, if it can.
	Zone string `json:"zone,omitempty"`
	// TTL is how long after its last call the member loses its partitions: 2s to 5m, in whole seconds; default 10s.
	TTL Duration `json:"ttl,omitzero"`
}

// Membership is what a member has: the answer to joining and to a heartbeat.
type Membership struct {
	Member string   `json:"member"`
	TTL    Duration `json:"ttl"`
	// Assignment are the partitions that the member owns, ascending. Empty: it stands by, or nothing is assigned yet.
	Assignment []uint32 `json:"assignment"`
	// Generation is that of the group's assignment; it goes into the next heartbeat. 0: there is none yet.
	Generation uint64 `json:"generation"`
}

// MemberLeave is the answer to DELETE …/members/{m}?dry_run=true: what leaving would give to the others.
type MemberLeave struct {
	DryRun     bool     `json:"dry_run"` // always true
	Topic      string   `json:"topic"`
	Group      string   `json:"group"`
	Member     string   `json:"member"`
	Joined     bool     `json:"joined"`     // false: there is no such member, so nothing would change
	Assignment []uint32 `json:"assignment"` // the partitions that would go to the others
}

// HeartbeatInput is the body of POST /v1/topics/{t}/groups/{g}/members/{m}/heartbeat. All fields are optional, and so
// is the body; wait may also be a query parameter.
type HeartbeatInput struct {
	// Generation is the one that the member knows; with it and Wait the answer comes when its partitions are others.
	Generation uint64 `json:"generation,omitempty"`
	// Wait is how long to wait for that, at most 30s; while the call waits the member lives.
	Wait Duration `json:"wait,omitzero"`
}

// MemberList is the answer to GET /v1/topics/{t}/groups/{g}/members.
type MemberList struct {
	Generation uint64   `json:"generation"` // of the assignment; 0: there is none yet
	Members    []Member `json:"members"`    // by name
}

// Member is one member of an assigned group.
type Member struct {
	Member     string    `json:"member"`
	Zone       string    `json:"zone,omitempty"`
	TTL        Duration  `json:"ttl,omitzero"`    // left out for gateways, who are the members of webhooks' groups
	Joined     time.Time `json:"joined,omitzero"` // left out for gateways
	Assignment []uint32  `json:"assignment"`
	// Gone: the member does not live any more, and its partitions are not given to others yet.
	Gone bool `json:"gone,omitempty"`
}
