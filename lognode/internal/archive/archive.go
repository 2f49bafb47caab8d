// Package archive keeps sealed segments in a bucket: an object store, or a directory. It is the only package that knows
// of gocloud.dev. An object is written once, read back before anyone relies on it, and never changed; the bucket's list
// is the index, so nothing of the archive is in etcd.
package archive

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const (
	// maxObjects bounds the archived segments of one partition that can be read, the newest ones: 10 TB of full ones.
	maxObjects = 20_000
	// uploads and readers bound what a node does with the bucket at once. Whoever comes beyond that is told so.
	uploads, readers = 2, 16
	// callWait is how long a read of the bucket may take, uploadWait an upload with its check.
	callWait, uploadWait = 15 * time.Second, 15 * time.Minute
)

// Archive is a bucket that is used for one cluster. Its methods may be called by many goroutines.
type Archive struct {
	bucket  *blob.Bucket
	inParts bool // the bucket is S3's: see transfer.breakOff
	cluster string
	uploads chan struct{}
	readers chan struct{}
	footers cache[*footer]
	blocks  cache[[]byte]
	spans   spans
}

// Open opens the bucket for a cluster. Whether it answers shows at the first use: a node starts without it.
func Open(ctx context.Context, text, cluster string) (*Archive, error) {
	u, err := bucketURL(text)
	if err != nil {
		return nil, err
	}
	// Some drivers fetch credentials anew with this context for as long as the bucket is open: it must not end with the start.
	b, err := blob.OpenBucket(context.WithoutCancel(ctx), u)
	if err != nil {
		return nil, fmt.Errorf("opening the archive's bucket: %w", maskedError{err})
	}
	a := use(b, cluster)
	a.inParts = strings.HasPrefix(u, "s3:")
	return a, nil
}

func use(b *blob.Bucket, cluster string) *Archive {
	return &Archive{bucket: b, cluster: cluster, uploads: make(chan struct{}, uploads), readers: make(chan struct{}, readers),
		footers: cache[*footer]{most: 64 << 20}, blocks: cache[[]byte]{most: 64 << 20}}
}

// Close ends the use of the bucket.
func (a *Archive) Close() error { return a.bucket.Close() }

// BeginUpload and BeginRead take a place among those that use the bucket now, false if there is none. End gives it back.
func (a *Archive) BeginUpload() (end func(), ok bool) { return begin(a.uploads) }

// BeginRead see BeginUpload.
func (a *Archive) BeginRead() (end func(), ok bool) { return begin(a.readers) }

func begin(places chan struct{}) (func(), bool) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, true
	default:
		return nil, false
	}
}

// Object is an archived segment: what its name says, and its size.
type Object struct {
	Key       string
	Size      int64
	Segment   mq.SegmentID
	Number    uint64
	Base, End mq.Position
}

func (a *Archive) prefix(p mq.PartitionID) string {
	return fmt.Sprintf("%s/%d/%d/", a.cluster, p.Topic, p.Number)
}

// key is the object's name. With the number first, a list is in the order of the journal.
func (a *Archive) key(s *mq.Segment) string {
	end := s.DataEnd()
	return fmt.Sprintf("%s%020d-%d-%d.%d-%d.%d", a.prefix(s.Partition), s.Number, s.ID, s.Base.Offset, s.Base.Seq, end.Offset, end.Seq)
}

// parseKey reads what key wrote after the prefix; false for anything else that lies there.
func parseKey(name string) (o Object, ok bool) {
	n, err := fmt.Sscanf(name, "%d-%d-%d.%d-%d.%d", &o.Number, &o.Segment, &o.Base.Offset, &o.Base.Seq, &o.End.Offset, &o.End.Seq)
	back := fmt.Sprintf("%020d-%d-%d.%d-%d.%d", o.Number, o.Segment, o.Base.Offset, o.Base.Seq, o.End.Offset, o.End.Seq)
	return o, err == nil && n == 6 && back == name && o.Base.Offset < o.End.Offset
}

// List are the archived segments of a partition in the journal's order, without overlaps. There may be gaps between them.
func (a *Archive) List(ctx context.Context, p mq.PartitionID) ([]Object, error) {
	ctx, cancel := context.WithTimeout(ctx, callWait)
	defer cancel()
	if err := a.mark(ctx); err != nil {
		return nil, err
	}
	prefix := a.prefix(p)
	var out []Object
	for it := a.bucket.List(&blob.ListOptions{Prefix: prefix}); ; {
		found, err := it.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, unavailable("listing the archive", err)
		}
		if o, ok := parseKey(strings.TrimPrefix(found.Key, prefix)); ok {
			o.Key, o.Size = found.Key, found.Size
			out = append(out, o)
		}
		if len(out) > 2*maxObjects { // names come in the order of the segments' numbers
			out = slices.Delete(out, 0, maxObjects)
		}
	}
	out = out[max(0, len(out)-maxObjects):]
	slices.SortFunc(out, func(a, b Object) int { return a.Base.Compare(b.Base) })
	return withoutOverlaps(out), nil
}

// mark makes sure that the cluster's mark lies in the bucket: the list of a directory that can't be read is empty, without an error.
func (a *Archive) mark(ctx context.Context) error {
	key := a.cluster + "/archive"
	if there, err := a.bucket.Exists(ctx, key); err == nil && there {
		return nil
	}
	t := a.transfer(ctx, key)
	_, err := t.Write([]byte(magic))
	if err := t.end(ctx, err); err != nil {
		return unavailable("looking into the archive", err)
	}
	return nil
}

// withoutOverlaps keeps of segments that overlap the one with the higher number.
func withoutOverlaps(list []Object) []Object {
	out := list[:0]
	for _, o := range list {
		if n := len(out); n > 0 && o.Base.Before(out[n-1].End) {
			if o.Number < out[n-1].Number {
				continue
			}
			out = out[:n-1]
		}
		out = append(out, o)
	}
	return out
}

// unavailable is the answer while the bucket does not do what it is asked.
func unavailable(what string, err error) error {
	return mqerr.New(mqerr.ArchiveUnavailable, "%s: %w", what, maskedError{err})
}

// damaged is the answer about an object that is not what was written.
func damaged(o *Object, format string, args ...any) error {
	return mqerr.New(mqerr.Internal, "the archived segment %s is damaged: %w", o.Key, fmt.Errorf(format, args...))
}
