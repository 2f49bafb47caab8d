package api

import "time"

// Cluster is the answer to GET /v1/cluster: what the answering gateway knows from etcd.
type Cluster struct {
	ID      string `json:"id"`
	Gateway string `json:"gateway"` // the one that answers
	// Metadata says whether the coordinators are heard, by one of the constants. While it is MetadataStale everything is from
	// MetadataSince, gateways and coordinators may be there or not, and a node is alive that answers this gateway.
	Metadata      string            `json:"metadata"`
	MetadataSince *time.Time        `json:"metadata_since,omitempty"` // absent while Metadata is MetadataCurrent
	Nodes         []NodeInfo        `json:"nodes"`
	Gateways      []GatewayInfo     `json:"gateways"`
	Coordinators  []CoordinatorInfo `json:"coordinators"`
	// CoordinatorsWanted is how many there should be: those whose addresses the gateway was given.
	CoordinatorsWanted int             `json:"coordinators_wanted"`
	Topics             int             `json:"topics"`
	Partitions         PartitionCounts `json:"partitions"`
}

// What a gateway says of its view of the metadata.
const (
	MetadataCurrent = "current"
	// MetadataReturned: the coordinators were away and are heard again since a moment ago; nodes and gateways that are
	// registering anew may be missing.
	MetadataReturned = "returned"
	MetadataStale    = "stale" // nothing is heard from them
)

// NodeInfo is a log node that is registered, or (not alive) that is only named by segments.
type NodeInfo struct {
	Name     string `json:"name"`
	Alive    bool   `json:"alive"`
	Store    string `json:"store"`
	Boot     uint64 `json:"boot,omitempty"`
	Address  string `json:"address,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Draining bool   `json:"draining,omitempty"`  // an operator wants it emptied
	SlowDisk bool   `json:"slow_disk,omitempty"` // by its own word: it leads nothing while others can
	Leads    int    `json:"leads"`               // partitions that it leads
	Replicas int    `json:"replicas"`            // open segments that it holds, led ones among them
	DryRun   bool   `json:"dry_run,omitempty"`   // the answer to a drain that only says what it would be
	// ClockAhead is there if the node's clock is off, by how much it is ahead: it leads nothing while others can.
	ClockAhead Duration `json:"clock_ahead,omitzero"`
	// Of a node that is draining: the sealed segments whose only way elsewhere is still under way, and the partitions that
	// can't leave it, because too few other nodes take segments. It may go when all of these are 0.
	Sealed   int `json:"sealed,omitempty"`
	NeededBy int `json:"needed_by,omitempty"`
	// NodesWanted is how many more nodes that take segments there would have to be for all its copies to find a place: until then it
	// keeps sealed segments, and open ones are short of a replica.
	NodesWanted int `json:"nodes_wanted,omitempty"`
}

// GatewayInfo is a registered gateway.
type GatewayInfo struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// ClockAhead is there if it is the gateway that answers, and its clock is off: by how much it is ahead of the log nodes' time.
	ClockAhead Duration `json:"clock_ahead,omitzero"`
}

// CoordinatorInfo is a registered coordinator.
type CoordinatorInfo struct {
	Name       string `json:"name"`
	Controller bool   `json:"controller,omitempty"` // it decides now
}

// PartitionCounts says how the cluster's partitions do.
type PartitionCounts struct {
	Total           int `json:"total"`
	WithLeader      int `json:"with_leader"`
	UnderReplicated int `json:"under_replicated"` // fewer living replicas than wanted, or no leader
	LostRanges      int `json:"lost_ranges"`      // ranges of offsets that are recorded as lost
	Forced          int `json:"forced"`           // those among them that an operator forced
}

// Health is the answer of /livez and /readyz.
type Health struct {
	Status string `json:"status"` // ok
}

// MoveLeaderRequest is the body of a move of a partition's leader; an empty one is fine.
type MoveLeaderRequest struct {
	// To is the name of the node that is to lead, a living replica; "" for any other than the present leader.
	To string `json:"to,omitempty"`
}

// MoveLeaderAnswer says who leads now.
type MoveLeaderAnswer struct {
	Partition uint32 `json:"partition"`
	Leader    string `json:"leader"`
	// DryRun: nothing was done. Leader would take the place of From, or stay if they are one.
	DryRun bool   `json:"dry_run,omitempty"`
	From   string `json:"from,omitempty"`
}

// ForceRecoverRequest is the body of a call that makes a partition go on with what is left of it.
type ForceRecoverRequest struct {
	// Node is a replica of the open segment that must be among those that answer; "" for whichever do.
	Node string `json:"node,omitempty"`
	// AcceptLoss must be true, unless the call is a dry run.
	AcceptLoss bool `json:"accept_loss,omitempty"`
	// Empty goes on even if no replica answers: all of the open segment, or of an old one that can't be read, is lost.
	Empty bool `json:"empty,omitempty"`
	// By says who decides that; it is recorded. Without it the caller's address is.
	By string `json:"by,omitempty"`
}

// ForceRecoverAnswer says what forcing a partition gives up, or gave up.
type ForceRecoverAnswer struct {
	Partition uint32 `json:"partition"`
	// Needed: the partition can't go on by itself, or goes on without an old segment that can't be read. If it is false nothing was done, and Because says why.
	Needed  bool   `json:"needed"`
	Because string `json:"because,omitempty"`
	// Forced: it was done, and Lost is what is recorded.
	Forced   bool           `json:"forced"`
	Segment  uint64         `json:"segment"` // the open one
	Leader   string         `json:"leader,omitempty"`
	Replicas []ForceReplica `json:"replicas,omitempty"` // of the open segment, or of the old one that can't be read, as they answered before
	Lost     []LostRange    `json:"lost,omitempty"`
}

// ForceReplica is what a replica of the open segment answered.
type ForceReplica struct {
	Node       string `json:"node"`
	Answers    bool   `json:"answers"`               // false: it is away, lost what it had, or is damaged
	Damaged    bool   `json:"damaged,omitempty"`     // what is on its disk is not all that it once had
	NextOffset uint64 `json:"next_offset,omitempty"` // the offset behind the last message that it has, intact
}

// RebuildAnswer says what was, or would be, rebuilt of the metadata of a cluster whose coordinators lost their data.
type RebuildAnswer struct {
	Rebuilt bool     `json:"rebuilt"`
	Nodes   []string `json:"nodes"` // that were asked: all that are registered
	// ConfigurationOf is when the newest copy of the configuration on a node was made; absent if none has one. What was
	// changed after that is lost.
	ConfigurationOf *time.Time `json:"configuration_of,omitempty"`
	Topics          int        `json:"topics"`
	Groups          int        `json:"groups"`
	Partitions      int        `json:"partitions"`
	Segments        int        `json:"segments"`
	Renamed         []string   `json:"renamed,omitempty"`  // topics of which only messages were found: they get these names and default settings
	LeftOut         []string   `json:"left_out,omitempty"` // segments that do not join the others: retention removed them, or what lay between is lost
	Lost            []string   `json:"lost,omitempty"`     // what no node that answered holds
}
