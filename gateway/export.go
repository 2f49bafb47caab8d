package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sync/errgroup"

	"github.com/splashdam/splashdam/gateway/internal/replay"
	"github.com/splashdam/splashdam/shared/beat"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/mqpb"
)

const (
	// exportEvery is how often dead letters that were not exported are looked for.
	exportEvery = time.Second
	// exporters is how many groups are looked at at once.
	exporters = 4
	// exportBatch bounds the dead letters that are published together, by number and, but for one, by bytes.
	exportBatch      = 100
	exportBatchBytes = 4 << 20
	// longestExportPause is the longest rest of a partition after failures; it doubles from exportEvery.
	longestExportPause = 30 * time.Second
	// mostExportHops is how many times a message may be exported as it dies in one topic after another: groups whose
	// dead letter topics lead in a circle would move it for ever.
	mostExportHops = 8
)

// exporter publishes dead letters to the dead letter topics of their groups, once for each death: it publishes with an
// idempotency key that names the death, and then has the leader note it. No log node calls another for that, and
// a topic that is gone costs a try now and then. Any gateway may do it for any partition; that usually one does is
// for thrift only. One goroutine owns it.
type exporter struct {
	g      *Gateway
	pauses map[exportPlace]exportPause
}

type exportPlace struct {
	group     mq.GroupID
	partition uint32
}

// exportPause is how long a partition rests after a failure.
type exportPause struct {
	until time.Time
	wait  time.Duration
}

// exportDead exports until ctx ends.
func (g *Gateway) exportDead(ctx context.Context) {
	x := exporter{g: g, pauses: map[exportPlace]exportPause{}}
	tick := beat.NewTicker(exportEvery)
	defer tick.Stop()
	for !g.isDraining() {
		select {
		case now := <-tick.C:
			x.look(ctx, now)
		case <-ctx.Done():
			return
		}
	}
}

// look exports what there is now.
func (x *exporter) look(ctx context.Context, now time.Time) {
	groups := x.g.view.DeadLetterGroups()
	results := make([]map[uint32]error, len(groups))
	var eg errgroup.Group
	eg.SetLimit(exporters)
	for i := range groups {
		gr := &groups[i]
		t, ok := x.g.view.TopicByID(gr.Topic)
		if !ok || t.Deleted || gr.Settings.DeadLetterTopic == t.Name {
			continue
		}
		parts := x.due(t, gr, now)
		if len(parts) == 0 {
			continue
		}
		eg.Go(func() error {
			results[i] = x.g.exportGroup(ctx, t, gr, parts)
			return nil
		})
	}
	_ = eg.Wait() // none of them fails
	for i, failed := range results {
		x.note(&groups[i], failed, now)
	}
}

// due are the partitions of a group that this gateway exports and that do not rest.
func (x *exporter) due(t meta.Topic, gr *meta.Group, now time.Time) (out []mq.PartitionID) {
	gateways := x.g.view.Gateways()
	for _, p := range allPartitions(t) {
		if exports(gateways, gr.ID, p.Number) == x.g.cfg.Name && !now.Before(x.pauses[exportPlace{gr.ID, p.Number}].until) {
			out = append(out, p)
		}
	}
	return out
}

// exports is the gateway that exports a partition: the one whose name and the partition hash highest, so that few
// partitions move when gateways come and go.
func exports(gateways []meta.Gateway, group mq.GroupID, partition uint32) (name string) {
	best := uint64(0)
	for i := range gateways {
		if h := xxhash.Sum64String(fmt.Sprint(gateways[i].Name, "/", group, "/", partition)); name == "" || h > best {
			name, best = gateways[i].Name, h
		}
	}
	return name
}

// note lets partitions rest that failed, and forgets the rests of those that did not.
func (x *exporter) note(gr *meta.Group, results map[uint32]error, now time.Time) {
	for p, err := range results {
		at := exportPlace{gr.ID, p}
		if err == nil {
			delete(x.pauses, at)
			continue
		}
		rest := x.pauses[at]
		rest.wait = min(max(2*rest.wait, exportEvery), longestExportPause)
		rest.until = now.Add(rest.wait)
		x.pauses[at] = rest
		x.g.log.Warn("dead letters can't be exported; it will be tried again", "group", gr.Name, "partition", p,
			"to", gr.Settings.DeadLetterTopic, "after", rest.wait, "error", err)
	}
}

// exportGroup exports the dead letters of some partitions of a group. It says for each that had some how that went.
func (g *Gateway) exportGroup(ctx context.Context, t meta.Topic, gr *meta.Group, parts []mq.PartitionID) map[uint32]error {
	out := map[uint32]error{}
	for p, f := range g.groupFigures(ctx, gr.ID, parts) {
		if f.err != nil || f.answer.GetDead() <= f.answer.GetExported() {
			continue
		}
		call, cancel := context.WithTimeout(ctx, g.cfg.RequestTimeout)
		out[p.Number] = g.exportFrom(call, t, gr, p)
		cancel()
	}
	return out
}

// exportFrom exports the first dead letters of a partition that were not.
func (g *Gateway) exportFrom(ctx context.Context, t meta.Topic, gr *meta.Group, p mq.PartitionID) error {
	r, err := fromLeader(ctx, g, p, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.HeldMessagesResponse, error) {
		return c.HeldMessages(ctx, &mqpb.HeldMessagesRequest{Partition: mqpb.FromPartition(p), Group: uint64(gr.ID), State: "dead",
			Limit: exportBatch, Filter: &mqpb.DeadFilter{Unexported: true}})
	})
	if err != nil {
		return err
	}
	target, err := g.topicToPublish(ctx, gr.Settings.DeadLetterTopic)
	if err != nil {
		return err
	}
	done, since, failed := g.publishDead(ctx, t, gr, p, target, r.GetMessages())
	if len(done) > 0 {
		_, err := fromLeader(ctx, g, p, func(ctx context.Context, c mqpb.LogNodeClient) (*mqpb.DeadLettersResponse, error) {
			return c.DeadLetters(ctx, &mqpb.DeadLettersRequest{Partition: mqpb.FromPartition(p), Group: uint64(gr.ID), Act: "export",
				Filter: &mqpb.DeadFilter{ByOffset: true, Offsets: done}, Since: since, Limit: exportBatch})
		})
		if err != nil {
			return err
		}
	}
	return failed
}

// publishDead publishes dead letters. It says which are there now, and when the last of those died.
func (g *Gateway) publishDead(ctx context.Context, t meta.Topic, gr *meta.Group, p mq.PartitionID, target meta.Topic, dead []*mqpb.HeldMessage) (done []uint64, since int64, failed error) {
	pl := newPlan(g, target, len(dead))
	defer pl.release()
	var sent []*mqpb.HeldMessage
	there := func(d *mqpb.HeldMessage) {
		done, since = append(done, d.GetOffset()), max(since, d.GetUntil())
	}
	for _, d := range dead {
		if pl.bytes >= exportBatchBytes {
			break
		}
		m, hops, release, err := g.deadLetter(ctx, t, gr, p, d)
		switch {
		case mqerr.Is(err, mqerr.MessageNotFound):
			there(d) // retention or a loss was faster: there is nothing to export any more
		case err != nil:
			failed = err
		case hops > mostExportHops:
			g.log.Warn("a dead letter is not exported: its dead letter topics lead in a circle", "topic", t.Name, "group", gr.Name,
				"partition", p.Number, "offset", d.GetOffset(), "hops", mostExportHops)
			there(d)
		default:
			setIdempotency(m, deathKey("dead letter", gr, p, d))
			pl.add(m, anyPartition, 0)
			sent = append(sent, d)
		}
		if release != nil {
			release()
		}
	}
	pl.send(ctx, g.cfg.Name)
	for i, d := range sent {
		switch _, err := pl.slots[i].result(); {
		case err == nil, err.Code == mqerr.IdempotencyConflict: // an earlier try of this death, which knew less of it
			there(d)
		default:
			failed = err
		}
	}
	return done, since, failed
}

// deathKey is an idempotency key that names one death of a message.
func deathKey(what string, gr *meta.Group, p mq.PartitionID, d *mqpb.HeldMessage) string {
	return fmt.Sprint(what, " ", gr.ID, " ", p, " ", d.GetOffset(), " ", d.GetUntil())
}

// deadLetter reads a dead message and tells in its headers what became of it, and in how many groups it has died; beyond
// mostExportHops it goes around in circles. What it answers lives until release.
func (g *Gateway) deadLetter(ctx context.Context, t meta.Topic, gr *meta.Group, p mq.PartitionID, d *mqpb.HeldMessage) (m *mq.Message, hops int, release func(), err error) {
	at := func(o uint64) frame.Place { return frame.Place{Where: frame.AtOffset, Value: o} }
	id := releasedID(p, d.GetOffset(), d.GetScheduled(), d.GetNumber())
	q := readQuery{topic: t, reader: replay.New(replay.Query{Topic: t.ID, From: at(d.GetOffset()), To: at(d.GetOffset() + 1),
		Unpack: func(b *mq.Batch) ([]byte, error) { return g.packer.Body(b, nil) }}, []uint32{p.Number}, g.fetchRead)}
	page, err := g.nextPage(ctx, &q, 1)
	if err != nil {
		return nil, 0, nil, notThere(id, err)
	}
	if len(page.items) == 0 || page.items[0].Offset != d.GetOffset() {
		page.release()
		return nil, 0, nil, mqerr.New(mqerr.MessageNotFound, "message %s", id)
	}
	item := &page.items[0]
	m = &item.Message
	hops = exportedBefore(m.Headers) + 1
	m.Headers = exportHeaders(m.Headers, exportFacts(t, gr, p, item, d, min(hops, mostExportHops)))
	m.TTL = 0 // it has died once; where it is kept now it has time
	return m, hops, page.release, nil
}

// checkDeadLetterTopic refuses a group whose dead letters would come back to its own topic.
func checkDeadLetterTopic(at, topic string, s *mq.GroupSettings) error {
	if s.DeadLetterTopic != "" && s.DeadLetterTopic == topic {
		return mq.FieldError{Pointer: at + "/dead_letter_topic", Detail: "must be another topic: the group would get its own dead letters again"}
	}
	return nil
}
