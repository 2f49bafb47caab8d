package api

// Cluster is the answer to GET /v1/cluster: what the answering gateway knows from etcd.
type Cluster struct {
	ID           string            `json:"id"`
	Gateway      string            `json:"gateway"` // the one that answers
	Nodes        []NodeInfo        `json:"nodes"`
	Gateways     []GatewayInfo     `json:"gateways"`
	Coordinators []CoordinatorInfo `json:"coordinators"`
	Topics       int               `json:"topics"`
	Partitions   PartitionCounts   `json:"partitions"`
}

// NodeInfo is a log node that is registered, or (not alive) that is only named by segments.
type NodeInfo struct {
	Name     string `json:"name"`
	Alive    bool   `json:"alive"`
	Store    string `json:"store"`
	Boot     uint64 `json:"boot,omitempty"`
	Address  string `json:"address,omitempty"`
	Zone     string `json:"zone,omitempty"`
	Draining bool   `json:"draining,omitempty"` // an operator wants it emptied
	Leads    int    `json:"leads"`              // partitions that it leads
	Replicas int    `json:"replicas"`           // open segments that it holds, led ones among them
}

// GatewayInfo is a registered gateway.
type GatewayInfo struct {
	Name    string `json:"name"`
	Address string `json:"address"`
}

// CoordinatorInfo is a registered coordinator.
type CoordinatorInfo struct {
	Name string `json:"name"`
}

// PartitionCounts says how the cluster's partitions do.
type PartitionCounts struct {
	Total           int `json:"total"`
	WithLeader      int `json:"with_leader"`
	UnderReplicated int `json:"under_replicated"` // fewer living replicas than wanted, or no leader
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
}
