package replica

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/archive"
	"github.com/splashdam/splashdam/shared/frame"
	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// shelf is what a leader knows of its partition's archive. Only leaders add to it, and what an earlier one still uploads is
// uploaded by this one too before it counts on it: so the list is read once, and kept. An empty one is not kept: it may be
// that of a directory where nothing is mounted now.
type shelf struct {
	listed  bool
	objects []archive.Object // replaced, never changed
	version int              // rises with each object that is added
	stored  mq.SegmentID     // the segment that was uploaded and not removed yet
	down    error            // why the last upload failed
	// pause is how long after a failure nothing is tried, and until when.
	pause time.Duration
	until time.Time
	// stop ends the upload that runs, which began at since; nil for none.
	stop  context.CancelCauseFunc
	since time.Time
}

const (
	// archivePause is how long a leader waits after a first failed try to archive a segment; twice as long after each further one,
	// up to archivePauseMost.
	archivePause, archivePauseMost = time.Second, time.Minute
	// archivePatience is how long an upload may take while the disk is so full that publishes are refused.
	archivePatience = 30 * time.Second
)

// errSlowArchive ends an upload that publishes wait for.
var errSlowArchive = errors.New("the disk is nearly full and the upload takes too long")

// errNoArchive: the topic, or the caller, wants an archive and the node has none.
var errNoArchive = mqerr.New(mqerr.ArchiveUnavailable, "the partition's leader was started without --archive-url")

// archived says whether a segment may be removed: it is in the archive, or need not be. If not it begins to upload it. While
// the bucket is down the segment stays, until the disk is so full that publishes would be refused.
func (p *Partition) archived(l *leadership, s *mq.Segment, t mq.TopicSettings) bool {
	if !t.Archive || l.shelf.stored == s.ID || s.Base.Offset == s.DataEnd().Offset {
		return true
	}
	if p.env.Archive == nil {
		l.shelf.down = errNoArchive
	}
	if l.shelf.down != nil && !p.env.Store.PublishAllowed() {
		l.shelf.stored = s.ID // so that it is counted once
		p.env.Metrics.Unarchived.Inc()
		p.log.Error("the disk is nearly full and the archive is down: a segment is removed that is not in the archive",
			"segment", s.ID, "from", s.Base, "to", s.DataEnd(), "err", l.shelf.down)
		return true
	}
	if time.Now().Before(l.shelf.until) {
		return false
	}
	if p.env.Archive == nil {
		p.archiveFailed(l, s, errNoArchive)
	} else {
		p.upload(l, s)
	}
	return false
}

func (p *Partition) archiveFailed(l *leadership, s *mq.Segment, err error) {
	l.shelf.failed(err, time.Now())
	p.env.Metrics.ArchiveErrors.Inc()
	p.log.Error("a segment stays that retention would remove, for it could not be archived", "segment", s.ID, "err", err, "again", l.shelf.pause)
}

// failed notes a try that failed: the next one waits.
func (h *shelf) failed(err error, now time.Time) {
	h.down = err
	h.pause = min(max(2*h.pause, archivePause), archivePauseMost)
	h.until = now.Add(h.pause)
}

// hurry ends an upload that lasts while publishes are refused: then the segment goes without being archived.
func (h *shelf) hurry(now time.Time) {
	if h.stop != nil && now.Sub(h.since) > archivePatience {
		h.stop(errSlowArchive)
	}
}

// upload puts a segment into the archive beside the partition. When all places are taken a later call does.
func (p *Partition) upload(l *leadership, s *mq.Segment) {
	end, ok := p.env.Archive.BeginUpload()
	if !ok {
		return
	}
	name := ""
	if t, ok := p.env.Chain.Topic(p.id.Topic); ok {
		name = t.Name
	}
	p.retaining = true
	ctx, stop := context.WithCancelCause(context.Background())
	l.shelf.stop, l.shelf.since = stop, time.Now()
	p.beside(func(node context.Context) {
		defer end()
		defer stop(nil)
		defer context.AfterFunc(node, func() { stop(context.Cause(node)) })()
		o, err := p.env.Archive.Upload(ctx, name, s, func(ctx context.Context, f func(*mq.Entry) error) error {
			return p.walk(ctx, s, s.Base, f)
		})
		p.post(func() {
			p.retaining, l.shelf.stop = false, nil
			switch {
			case p.lead != l:
			case err != nil:
				p.archiveFailed(l, s, err)
			default:
				p.env.Metrics.Archived.Inc()
				l.shelf.add(o)
				p.Retain()
			}
		})
	})
}

// add notes an uploaded segment.
func (h *shelf) add(o archive.Object) {
	h.version++
	h.stored, h.down, h.pause = o.Segment, nil, 0
	if h.listed && !slices.ContainsFunc(h.objects, func(have archive.Object) bool { return have.Key == o.Key }) {
		h.objects = append(slices.Clone(h.objects), o)
	}
}

// needsArchive says whether a read may begin before what this node keeps.
func needsArchive(r *frame.Read, first uint64) bool {
	return r.Archived && (r.Backward || r.From.Where != frame.AtOffset || r.From.Value < first)
}

// readArchived is Read with the archive below what is kept.
func (p *Partition) readArchived(l *leadership, r frame.Read, reply Reply) {
	j := l.journal()
	p.withShelf(l, reply.fail, func(ctx context.Context, objects []archive.Object) error {
		j.putBelow(objects, p.id)
		done, err := p.read(ctx, j, r)
		if err == nil {
			reply(frame.TypeReadDone, &done)
		}
		return err
	})
}

// withShelf calls f beside the partition with what is archived of it. fail is called with what goes wrong, f's errors too.
func (p *Partition) withShelf(l *leadership, fail func(error), f func(context.Context, []archive.Object) error) {
	if p.env.Archive == nil {
		fail(errNoArchive)
		return
	}
	end, ok := p.env.Archive.BeginRead()
	if !ok {
		fail(mqerr.New(mqerr.Overloaded, "this node reads as much from the archive as it may"))
		return
	}
	known := l.shelf
	p.beside(func(ctx context.Context) {
		defer end()
		objects, err := known.objects, error(nil)
		if !known.listed {
			if objects, err = p.env.Archive.List(ctx, p.id); err != nil {
				fail(err)
				return
			}
			p.post(func() {
				if p.lead == l && l.shelf.version == known.version && len(objects) > 0 {
					l.shelf.listed, l.shelf.objects = true, objects
				}
			})
		}
		if err := f(ctx, objects); err != nil {
			fail(err)
		}
	})
}

// putBelow puts archived segments before those that are kept; an archived one that is still kept is not needed.
func (j *journal) putBelow(objects []archive.Object, id mq.PartitionID) {
	first := j.first()
	n := 0
	for n < len(objects) && objects[n].End.Offset <= first {
		n++
	}
	j.archived = objects[:n]
	all := make([]mq.Segment, 0, n+len(j.sealed))
	for _, o := range j.archived {
		all = append(all, mq.Segment{ID: o.Segment, Partition: id, Number: o.Number, Base: o.Base, End: o.End, Sealed: true})
	}
	j.sealed = append(all, j.sealed...)
}

// object is the archived segment that s is, or nil.
func (j *journal) object(s *mq.Segment) *archive.Object {
	for i := range j.archived {
		if s == &j.sealed[i] {
			return &j.archived[i]
		}
	}
	return nil
}

// readError is the answer where reading stopped: that of the archive where it is that, or a fault of this server.
func readError(offset uint64, err error) error {
	if e := (*mqerr.Error)(nil); errors.As(err, &e) {
		return err
	}
	if errors.Is(err, errNowhere) {
		return mqerr.New(mqerr.PartitionDamaged, "what is told of offset %d needs a segment that is damaged or missing on every replica that answers: %w", offset, err)
	}
	return mqerr.New(mqerr.Internal, "reading offset %d: %w", offset, err)
}
