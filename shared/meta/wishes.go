package meta

import (
	"context"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	prefixDrains = "/drains/" // by node name
	prefixMoves  = "/moves/"  // by topic id and partition number
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

// SetDrain sets or takes back the wish to drain a node. Setting it needs a node that is registered now
// (InvalidParameter otherwise).
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
		return mqerr.New(mqerr.InvalidParameter, "there is no node %q now", node)
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

// moveKind keeps moves by partition; only the controller looks at them.
func (d *data) moveKind() *kind {
	k := named(prefixMoves, d.moves)
	return withMods(k)
}

// Moves are the wishes to move leaders; none without WithReports.
func (v *View) Moves() map[mq.PartitionID]Move {
	return read(v, func(d *data) map[mq.PartitionID]Move {
		out := make(map[mq.PartitionID]Move, len(d.moves))
		for rest, m := range d.moves {
			topic, number, _ := strings.Cut(rest, "/")
			t, err := strconv.ParseUint(topic, 10, 64)
			n, err2 := strconv.ParseUint(number, 10, 32)
			if err == nil && err2 == nil {
				out[mq.PartitionID{Topic: mq.TopicID(t), Number: uint32(n)}] = m
			}
		}
		return out
	})
}

// drained is a node as the wishes have it. Called with the view's lock held.
func (d *data) drained(n Node) Node {
	if _, ok := d.drains[n.Name]; ok {
		n.Draining = true
	}
	return n
}
