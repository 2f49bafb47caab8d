package meta

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	prefixDrains = "/drains/" // by node name
	prefixMoves  = "/moves/"  // by topic id and partition number
	prefixForces = "/forces/" // by topic id and partition number
)

// Drain is an operator's wish that a node is emptied: it gets no new segments, leads nothing, and what it holds
// is copied elsewhere where there is room. It stays until it is taken back, over restarts too.
type Drain struct{}

// Move is an operator's wish that another replica leads a partition. It is about one open segment: once that is
// sealed it is over, whoever leads the next one.
type Move struct {
	Segment mq.SegmentID `json:"segment"`
	To      mq.StoreID   `json:"to"`
}

// ForceFor is how long a wish to force a partition stands. One that could not be carried out by then is over, so
// that it does not meet another failure than the one that its operator looked at. Its key has a lease: the clocks of those who set
// it and of those who carry it out may be wrong.
const ForceFor = 10 * time.Minute

// Force is an operator's word that a partition is to go on with what is left of it (replication rule R6): its open
// segment is sealed with however many replicas answer, or what its leader can't find any more is recorded as lost. It
// is about one open segment, as a Move is.
type Force struct {
	Segment mq.SegmentID `json:"segment"`
	// Store is the replica that must be among those that answer, Node its name; "" for whichever answer.
	Store mq.StoreID `json:"store,omitempty"`
	Node  string     `json:"node,omitempty"`
	// Served: it is about sealed segments only, which the partition goes on without, or can't open without. Its leader sees to
	// that, and the open segment is not sealed for it.
	Served bool `json:"served,omitempty"`
	// Empty: also if no replica answers, so that everything in the segment is lost.
	Empty bool      `json:"empty,omitempty"`
	By    string    `json:"by"`
	At    time.Time `json:"at"` // by the clock of who set it; it decides nothing
}

// Stands says whether the wish is about a segment. One whose time is over is not there any more.
func (f *Force) Stands(open mq.SegmentID) bool { return f.Segment == open && open != 0 }

// SetForce sets the wish to force a partition, for ForceFor.
func (s *Store) SetForce(ctx context.Context, p mq.PartitionID, f Force) error {
	text, err := encode(f)
	if err != nil {
		return err
	}
	lease, err := s.grant(ctx, ForceFor)
	if err != nil {
		return err
	}
	_, _, err = s.commit(ctx, "forcing a partition", nil, clientv3.OpPut(forceKey(p), text, clientv3.WithLease(lease)))
	return err
}

// GetForce reads the wish to force a partition linearizably; the zero value if there is none.
func (s *Store) GetForce(ctx context.Context, p mq.PartitionID) (f Force, err error) {
	_, err = s.get(ctx, forceKey(p), &f)
	return f, err
}

// ForgetForce removes a wish that is over. For the controller, and for a leader that carried it out.
func (s *Store) ForgetForce(ctx context.Context, p mq.PartitionID) error {
	_, _, err := s.commit(ctx, "forgetting a force", nil, clientv3.OpDelete(forceKey(p)))
	return err
}

func forceKey(p mq.PartitionID) string {
	return prefixForces + strings.TrimPrefix(partitionKey(p), prefixPartitions)
}

// SetDrain sets or takes back the wish to drain a node. Setting it needs a node that is registered now
// (NodeNotFound otherwise).
func (s *Store) SetDrain(ctx context.Context, node string, drain bool) error {
	if !drain {
		_, _, err := s.commit(ctx, "taking back a drain", nil, clientv3.OpDelete(prefixDrains+node))
		return err
	}
	var n Node
	revision, err := s.get(ctx, NodeKey(node), &n)
	if err != nil {
		return err
	}
	if revision == 0 {
		return mqerr.New(mqerr.NodeNotFound, "there is no node %q now", node)
	}
	text, err := encode(Drain{})
	if err != nil {
		return err
	}
	_, _, err = s.commit(ctx, "draining a node", nil, clientv3.OpPut(prefixDrains+node, text))
	return err
}

// SetMove sets the wish that a partition's open segment is led from another store.
func (s *Store) SetMove(ctx context.Context, p mq.PartitionID, m Move) error {
	text, err := encode(m)
	if err != nil {
		return err
	}
	_, _, err = s.commit(ctx, "moving a leader", nil, clientv3.OpPut(moveKey(p), text))
	return err
}

// ForgetMove removes a wish that is over. Controller only.
func (s *Store) ForgetMove(ctx context.Context, p mq.PartitionID) error {
	_, _, err := s.commit(ctx, "forgetting a move", nil, clientv3.OpDelete(moveKey(p)))
	return err
}

func moveKey(p mq.PartitionID) string {
	return prefixMoves + strings.TrimPrefix(partitionKey(p), prefixPartitions)
}

// forceKind keeps forces by partition; only the controller looks at them.
func (d *data) forceKind() *kind { return withMods(named(prefixForces, d.forces)) }

// moveKind keeps moves by partition; only the controller looks at them.
func (d *data) moveKind() *kind {
	k := named(prefixMoves, d.moves)
	return withMods(k)
}

// Moves are the wishes to move leaders; none without WithReports.
func (v *View) Moves() map[mq.PartitionID]Move {
	return read(v, func(d *data) map[mq.PartitionID]Move { return byPartition(d.moves) })
}

// Forces are the wishes to force partitions; none without WithReports.
func (v *View) Forces() map[mq.PartitionID]Force {
	return read(v, func(d *data) map[mq.PartitionID]Force { return byPartition(d.forces) })
}

// byPartition is wishes by what their keys name.
func byPartition[T any](wishes map[string]T) map[mq.PartitionID]T {
	out := make(map[mq.PartitionID]T, len(wishes))
	for rest, w := range wishes {
		if p, ok := parsePartition(rest); ok {
			out[p] = w
		}
	}
	return out
}

// drained is a node as the wishes have it. Called with the view's lock held.
func (d *data) drained(n Node) Node {
	if _, ok := d.drains[n.Name]; ok {
		n.Draining = true
	}
	return n
}
