package meta

import (
	"encoding/json"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// Node is what a log node registers under /nodes/<name>, with a lease.
type Node struct {
	Name  string     `json:"name"`
	Store mq.StoreID `json:"store"`
	Boot  uint64     `json:"boot"`
	// Addr is where the node serves gRPC, host:port.
	Addr string `json:"addr"`
	// Zone is a failure domain; replicas are spread over zones.
	Zone string `json:"zone,omitempty"`
	// Capacity weighs the node in placement; 0 counts as 1.
	Capacity int `json:"capacity,omitempty"`
	// Draining says that the node takes no new segments.
	Draining bool `json:"draining,omitempty"`
	// Full says that the node's disk refuses publishes, so it gets no new segments while others can.
	Full bool `json:"full,omitempty"`
	// Skewed says that the node's clock is too far from the others', so it leads no new segments while others can.
	Skewed bool `json:"skewed,omitempty"`
	// Ahead is by how much it is ahead then, to the second; negative if it is behind.
	Ahead mq.Duration `json:"ahead,omitzero"`
	// Slow says that the node's disk is slower than those of other replicas, so it leads no new segments while others can.
	Slow bool `json:"slow,omitempty"`
	// Stopping says that the node is about to end, so it gets no new segments while others can.
	Stopping bool `json:"stopping,omitempty"`
	// Archives says that the node has a bucket for the topics that are archived.
	Archives bool `json:"archives,omitempty"`
}

// replaces: a store belongs to one process at a time, by a lock of the kernel, and boots say which run is the newest.
func (n Node) replaces(value []byte) bool {
	var was Node
	return json.Unmarshal(value, &was) == nil && was.Store == n.Store
}

// Takes says whether the node gets new segments as others do; else it gets them only where fewer than a quorum of others can.
func (n *Node) Takes() bool { return !n.Draining && !n.Full && !n.Stopping }

// Rank is how much there is against the node's leading by what it says of itself. It asks to be rid of what it leads only while there is
// another one of a lower rank, or it would be given it again at once.
func (n *Node) Rank() mq.Rank { return mq.RankOf(!n.Takes(), n.Skewed, n.Slow) }

// Incarnation is the run that registered.
func (n *Node) Incarnation() mq.Incarnation { return mq.Incarnation{Store: n.Store, Boot: n.Boot} }

// Gateway is what a gateway registers under /gateways/<name>, with a lease.
type Gateway struct {
	Name    string    `json:"name"`
	Addr    string    `json:"addr"` // where it serves HTTP, host:port
	Started time.Time `json:"started,omitzero"`
}

// replaces: who listens at an address knows that nobody else does. (Where both told others the address of another machine's
// loopback, the first one finds that it is not registered.)
func (g Gateway) replaces(value []byte) bool {
	var was Gateway
	return json.Unmarshal(value, &was) == nil && was.Addr == g.Addr
}

// Coordinator is what a coordinator registers under /coordinators/<name>, with a lease: where log nodes
// and gateways find NATS.
type Coordinator struct {
	Name       string `json:"name"`
	EtcdClient string `json:"etcd_client"` // host:port
	NATS       string `json:"nats"`        // host:port
}

// replaces as for a gateway.
func (c Coordinator) replaces(value []byte) bool {
	var was Coordinator
	return json.Unmarshal(value, &was) == nil && was.EtcdClient == c.EtcdClient
}

// Report is what a log node wants the controller to know, under /reports/<store id>, with the node's lease
// time. Written on change and at most once a second.
type Report struct {
	Store mq.StoreID `json:"store"`
	// SealFlags are segments that this node holds, sealed here, and open according to etcd.
	SealFlags []mq.SegmentID `json:"seal_flags,omitempty"`
	// SealWanted are segments that this node leads and asks to be sealed (size, age, own disk, clock).
	SealWanted []mq.SegmentID `json:"seal_wanted,omitempty"`
	// Behind are segments that this node leads, with the replicas that are more than 10 s behind or silent; sooner, where
	// fewer than a quorum answer.
	Behind []Behind `json:"behind,omitempty"`
	// Opening are segments that this node leads and does not serve yet: not a reason for suspicion.
	Opening []mq.SegmentID `json:"opening,omitempty"`
	// Copied are sealed segments that this node holds whole, of those that somebody copies (mq.Segment.Adding) or that a node holds which
	// is to be emptied: whom the controller lets go depends on it.
	Copied []mq.SegmentID `json:"copied,omitempty"`
}

// replaces: the key has the store's id in it, and a store belongs to one process.
func (Report) replaces([]byte) bool { return true }

// Behind names followers of a segment that its leader can't count on.
type Behind struct {
	Segment mq.SegmentID `json:"segment"`
	Stores  []mq.StoreID `json:"stores"`
}

// Topic is the record of a topic under /topics/<name>.
type Topic struct {
	Name     string           `json:"name"`
	ID       mq.TopicID       `json:"id"`
	Settings mq.TopicSettings `json:"settings"`
	// Route rises whenever the mapping of keys to partitions changes.
	Route   uint64    `json:"route"`
	Created time.Time `json:"created"`
	// Deleted: the topic is gone for users, since DeletedAt; nodes remove what they hold of its id.
	Deleted   bool      `json:"deleted,omitempty"`
	DeletedAt time.Time `json:"deleted_at,omitzero"`
	// Revision is the key's ModRevision when this value was read (ETag, If-Match); not stored.
	Revision int64 `json:"-"`
}

// Group is the record of a group under /groups/<topic id>/<name>.
type Group struct {
	ID    mq.GroupID `json:"id"`
	Topic mq.TopicID `json:"topic"`
	Name  string     `json:"name"`
	// Version rises at each change of what the partitions' leaders must know (settings, paused).
	Version  uint64           `json:"version"`
	Settings mq.GroupSettings `json:"settings"`
	Paused   bool             `json:"paused,omitempty"`
	// Started: every partition has recorded where the group starts.
	Started bool      `json:"started,omitempty"`
	Created time.Time `json:"created"`
	// Deleted: the group is gone for users. The key stays until the name is used again, with a new id, so a leader
	// that holds a group whose key is deleted, or is of another id, may forget the group.
	Deleted bool `json:"deleted,omitempty"`
	// Revision is the key's ModRevision when this value was read; not stored.
	Revision int64 `json:"-"`
}

// Cluster is the record under /cluster, made once by the first controller.
type Cluster struct {
	ID      string    `json:"id"` // 32 hex digits
	Created time.Time `json:"created"`
}

// secret is a numbered key under /secrets/receipts/<number>: 32 random bytes that sign receipts and cursors.
type secret struct {
	Number  uint32    `json:"number"`
	Secret  []byte    `json:"secret"`
	Created time.Time `json:"created"`
}
