package lognode

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqpb"
)

const (
	// mirrorEvery is how often the copy of the configuration is made anew although nothing seems to have changed.
	mirrorEvery = time.Minute
	// mirrorAfter is how long a change waits for others.
	mirrorAfter = 2 * time.Second
	// inventoryPage is how many segments are told at a time.
	inventoryPage = 5000
)

// mirror keeps a copy of the cluster's configuration beside the segments, from which it can be rebuilt should the coordinators
// lose their data (rule R7). What was changed within the last seconds may be missing in it.
func (n *Node) mirror() {
	changes, cancel := n.view.Subscribe()
	defer cancel()
	again := time.NewTicker(mirrorEvery)
	defer again.Stop()
	wrote := mirrored{}
	for {
		if now := n.toMirror(); now != wrote {
			if err := n.writeMirror(); err == nil {
				wrote = now
			} else if n.ctx.Err() == nil {
				n.log.Warn("the copy of the configuration could not be made; it will be tried again", "err", err)
			}
			pause := time.NewTimer(mirrorAfter)
			select {
			case <-pause.C:
			case <-n.ctx.Done():
				pause.Stop()
				return
			}
		}
		select {
		case <-changes:
		case <-again.C:
			wrote = mirrored{}
		case <-n.ctx.Done():
			return
		}
	}
}

// mirrored tells two states of the configuration apart, as far as the view follows it.
type mirrored struct{ topics, deleted, groups, revision int64 }

func (n *Node) toMirror() (m mirrored) {
	for _, t := range n.view.Topics() {
		m.topics++
		m.revision = max(m.revision, t.Revision)
		for _, g := range n.view.Groups(t.ID) {
			m.groups++
			m.revision = max(m.revision, g.Revision)
		}
	}
	m.deleted = n.view.Deletions().Count()
	return m
}

func (n *Node) writeMirror() error {
	ctx, cancel := context.WithTimeout(n.ctx, 30*time.Second)
	defer cancel()
	m, err := n.meta.ReadMirror(ctx, n.store.ClusterID(), n.view.AllHeads())
	if err != nil {
		return err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := errors.Join(json.NewEncoder(z).Encode(m), z.Close()); err != nil {
		return err
	}
	return n.store.WriteMirror(b.Bytes())
}

// Inventory tells what this node holds.
func (s *server) Inventory(_ context.Context, req *mqpb.InventoryRequest) (*mqpb.InventoryResponse, error) {
	st := s.node.store
	res := &mqpb.InventoryResponse{Node: mqpb.FromIncarnation(st.Identity())}
	if req.After == 0 {
		res.Mirror = st.ReadMirror()
		st.AllNamed(func(p mq.PartitionID, named mq.Named) {
			res.Named = append(res.Named, &mqpb.Named{Partition: mqpb.FromPartition(p), Number: named.Number, Revision: named.Revision})
		})
	}
	list := slices.DeleteFunc(st.Segments(), func(i store.SegmentInfo) bool { return uint64(i.Segment.ID) <= req.After })
	slices.SortFunc(list, func(a, b store.SegmentInfo) int {
		if a.Segment.ID < b.Segment.ID {
			return -1
		}
		return 1
	})
	if res.More = len(list) > inventoryPage; res.More {
		list = list[:inventoryPage]
	}
	for i := range list {
		x := &mqpb.HeldSegment{Segment: mqpb.FromSegment(&list[i].Segment), Tail: mqpb.FromPosition(list[i].Tail), Damaged: list[i].Damaged}
		if list[i].End != nil {
			x.Ended, x.End = true, mqpb.FromPosition(*list[i].End)
		}
		res.Segments = append(res.Segments, x)
	}
	return res, nil
}

// behind says that etcd tells less of a partition than this store has seen of it: its data is older than the segments, or is not this
// cluster's. Nothing is done about such a partition (rule R7).
func (n *Node) behind(p mq.PartitionID, is bool) {
	if _, was := n.stale[p]; was == is {
		return
	}
	if is {
		n.stale[p] = time.Now()
	} else {
		delete(n.stale, p)
	}
	n.env.Metrics.Behind.Set(float64(len(n.stale)))
}

// staleGrace is how long etcd may be behind before a node raises its voice: an opening that lost against another
// change of its head was seen here and is not in etcd; the controller makes another one within a second.
const staleGrace = 5 * time.Second

func (n *Node) complainOfStale() {
	for p, since := range n.stale {
		if since.IsZero() || time.Since(since) < staleGrace {
			continue
		}
		n.stale[p] = time.Time{}
		seen := n.store.Named(p)
		n.log.Error("etcd is behind what this node has seen of a partition: was its data put back from a copy? "+
			"The partition is left alone", "partition", p, "seen_number", seen.Number, "seen_revision", seen.Revision)
	}
}

// follows checks a head against what this store has seen.
func (n *Node) follows(h *mq.Head) bool {
	said, named := h.Named()
	ok := !named || n.store.Named(h.Partition).Follows(said)
	n.behind(h.Partition, !ok)
	return ok
}
