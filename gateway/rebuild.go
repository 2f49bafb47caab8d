package gateway

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/splashdam/splashdam/gateway/internal/rebuild"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

const (
	// rebuildTimeout bounds a rebuild; it may be asked for again.
	rebuildTimeout = 5 * time.Minute
	// maxMirror bounds a node's copy of the configuration, unpacked.
	maxMirror = 256 << 20
	// idMargin is by how much the counters of ids are raised beyond what is known: what was made after a node's last copy of
	// the configuration was made is not.
	idMargin = 1000
)

// handleRebuild rebuilds the metadata of a cluster that lost it from what its log nodes hold; with dry_run it only says
// what it would make.
func (g *Gateway) handleRebuild(c echo.Context) error {
	dry, err := queryBool(c, "dry_run")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), rebuildTimeout)
	defer cancel()
	if err := g.store.CheckRecovering(ctx); err != nil { // for a dry run, too: it would show what a rebuild does not do
		return err
	}
	found, err := g.inventory(ctx)
	if err != nil {
		return err
	}
	restored, answer, err := found.plan()
	if err != nil {
		return err
	}
	if dry {
		return answerJSON(c, http.StatusOK, answer)
	}
	if err := g.store.Restore(ctx, restored); err != nil {
		return err
	}
	g.log.Warn("the cluster's metadata was rebuilt", "topics", answer.Topics, "partitions", answer.Partitions, "segments", answer.Segments)
	g.showIn(ctx, func(v *meta.View) bool { return len(v.Topics()) >= answer.Topics })
	answer.Rebuilt = true
	return answerJSON(c, http.StatusOK, answer)
}

// inventories are what the nodes hold.
type inventories struct {
	nodes    []string
	holdings []rebuild.Holding
	named    map[mq.PartitionID]uint64
	mirror   *meta.Mirror // the newest
}

// inventory asks all registered nodes. Each of them must answer: what one holds may be held nowhere else.
func (g *Gateway) inventory(ctx context.Context) (*inventories, error) {
	out := &inventories{named: map[mq.PartitionID]uint64{}}
	for _, n := range g.view.Nodes() {
		if err := g.inventoryOf(ctx, n, out); err != nil {
			return nil, fmt.Errorf("asking node %s what it holds: %w", n.Name, err)
		}
		out.nodes = append(out.nodes, n.Name)
	}
	if len(out.nodes) == 0 {
		return nil, mqerr.New(mqerr.NotEnoughReplicas, "no log node is registered")
	}
	return out, nil
}

func (g *Gateway) inventoryOf(ctx context.Context, n meta.Node, out *inventories) error {
	client, err := g.router.ControlNode(n.Name)
	if err != nil {
		return err
	}
	for after, more := uint64(0), true; more; {
		call, cancel := context.WithTimeout(ctx, 30*time.Second)
		res, err := client.Inventory(call, &mqpb.InventoryRequest{After: after})
		cancel()
		if err != nil {
			return controlError(n.Name, err)
		}
		for _, x := range res.Named {
			p := x.Partition.MQ()
			out.named[p] = max(out.named[p], x.Number)
		}
		if len(res.Mirror) > 0 {
			m, err := readMirror(res.Mirror)
			if err != nil {
				g.log.Warn("a node's copy of the configuration can't be read", "node", n.Name, "err", err)
			} else if m.Cluster == g.view.ClusterID() && (out.mirror == nil || out.mirror.Revision < m.Revision) {
				out.mirror = m
			}
		}
		for _, s := range res.Segments {
			h := rebuild.Holding{Holder: mq.Replica{Store: n.Store, Node: n.Name}, Segment: s.Segment.MQ(), Tail: s.Tail.MQ(), Damaged: s.Damaged}
			if s.Ended {
				end := s.End.MQ()
				h.End = &end
			}
			out.holdings = append(out.holdings, h)
			after = s.Segment.Id
		}
		more = res.More && len(res.Segments) > 0
	}
	return nil
}

func readMirror(packed []byte) (*meta.Mirror, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxMirror+1))
	if err == nil && len(text) > maxMirror {
		err = fmt.Errorf("it has more than %d bytes", maxMirror)
	}
	if err != nil {
		return nil, err
	}
	var m meta.Mirror
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	return &m, nil
}

// plan makes metadata of what was found.
func (f *inventories) plan() (*meta.Restored, *api.RebuildAnswer, error) {
	known := map[mq.PartitionID]mq.Head{}
	r := &meta.Restored{Last: map[meta.Kind]uint64{}}
	a := &api.RebuildAnswer{Nodes: f.nodes}
	last := func(kind meta.Kind, id uint64) { r.Last[kind] = max(r.Last[kind], id+idMargin) }
	topics := map[mq.TopicID]meta.Topic{}
	var deleted []meta.TopicSet
	if f.mirror != nil {
		a.ConfigurationOf = &f.mirror.At
		r.Keys = f.mirror.Keys
		for _, kv := range r.Keys {
			if t, live := meta.TopicOf(kv); live {
				topics[t.ID] = t
				last(meta.TopicIDs, uint64(t.ID))
			}
			if g, ok := meta.GroupOf(kv); ok {
				last(meta.GroupIDs, uint64(g.ID))
				if !g.Deleted {
					a.Groups++
				}
			}
			if set, ok := meta.TombstonesOf(kv); ok {
				deleted = append(deleted, set)
				last(meta.TopicIDs, uint64(set.Last()))
			}
		}
		for _, h := range f.mirror.Heads {
			known[h.Partition] = h
		}
	}
	for _, h := range f.holdings {
		last(meta.SegmentIDs, uint64(h.Segment.ID))
		last(meta.TopicIDs, uint64(h.Segment.Partition.Topic))
	}
	last(meta.GroupIDs, 0)
	unknown := map[mq.TopicID]uint32{}
	for _, c := range rebuild.Chains(f.holdings, f.named, known) {
		p := c.Head.Partition
		if slices.ContainsFunc(deleted, func(s meta.TopicSet) bool { return s.Has(p.Topic) }) {
			continue
		}
		if _, ok := topics[p.Topic]; !ok {
			unknown[p.Topic] = max(unknown[p.Topic], p.Number+1)
		}
		r.Heads, r.Sealed = append(r.Heads, c.Head), append(r.Sealed, c.Sealed...)
		a.Partitions++
		a.Segments += len(c.Sealed)
		for _, s := range []*mq.Segment{c.Head.Open, c.Head.Last} {
			if s != nil {
				a.Segments++
			}
		}
		for _, s := range c.LeftOut {
			a.LeftOut = append(a.LeftOut, s.String())
		}
		a.Lost = append(a.Lost, c.Lost...)
	}
	a.Topics = len(topics) + len(unknown)
	err := f.inventTopics(r, a, unknown)
	return r, a, err
}

// inventTopics gives topics of which no copy of the configuration tells a name, and default settings.
func (f *inventories) inventTopics(r *meta.Restored, a *api.RebuildAnswer, unknown map[mq.TopicID]uint32) error {
	for id, partitions := range unknown {
		t := meta.Topic{Name: fmt.Sprintf("recovered-%d", id), ID: id, Route: 1, Created: time.Now().UTC(), Settings: mq.DefaultTopicSettings()}
		t.Settings.Partitions = partitions
		for _, h := range r.Heads {
			if h.Partition.Topic == id {
				t.Settings.Replicas, t.Settings.Quorum = h.Replicas, h.Quorum
			}
		}
		kv, err := meta.TopicKV(t)
		if err != nil {
			return err
		}
		r.Keys = append(r.Keys, kv)
		a.Renamed = append(a.Renamed, t.Name)
	}
	slices.SortFunc(a.Renamed, strings.Compare)
	return nil
}
