package archive

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
	"github.com/splashdam/splashdam/shared/s3test"
)

func startS3(t *testing.T) *s3test.Server {
	for name, value := range s3test.Environment() {
		t.Setenv(name, value)
	}
	fake := s3test.Start()
	t.Cleanup(fake.Close)
	return fake
}

// S3 answers what it was given: objects in one piece and in parts, lists of many pages, and nothing is sent twice.
func TestS3(t *testing.T) {
	fake := startS3(t)
	fake.Page(2)
	a := open(t, fake.BucketURL())
	segments := []*testSegment{segment(1, mq.Position{}, 50, 1000)}
	for id := mq.SegmentID(2); id < 7; id++ {
		segments = append(segments, segment(id, segments[id-2].End, 20, 100))
	}
	segments = append(segments, segment(7, segments[5].End, 18, 1<<20)) // in parts
	for _, s := range segments {
		upload(t, a, s)
	}
	checkReads(t, a, segments...)
	if n := len(fake.Keys()); n != len(segments)+1 { // and the mark
		t.Errorf("%d objects", n)
	}
	if s := fake.Stats(); s != (s3test.Stats{}) || fake.Calls(http.MethodPost) != 2 {
		t.Errorf("%+v, after %d calls", s, fake.Calls(http.MethodPost))
	}
	puts := fake.Calls(http.MethodPut)
	next := open(t, fake.BucketURL())
	upload(t, next, segments[6])
	if fake.Calls(http.MethodPut) != puts {
		t.Error("the next leader uploaded again what is there")
	}
	checkReads(t, next, segments...)
}

// What is given up in the middle leaves no object, and no parts that cost money.
func TestS3UploadGivenUp(t *testing.T) {
	fake := startS3(t)
	a := open(t, fake.BucketURL())
	s := segment(1, mq.Position{}, 40, 1<<20)
	err := uploadGivenUp(t, a, s, 35)
	if err == nil || len(fake.Keys()) > 0 {
		t.Fatalf("there is %v: %v", fake.Keys(), err)
	}
	if s := fake.Stats(); s.Incomplete > 0 || s.Aborted != 1 {
		t.Errorf("%+v", s)
	}
}

// A bucket that refuses is an answer that says so, and the credentials are in none.
func TestS3Refuses(t *testing.T) {
	fake := startS3(t)
	a := open(t, fake.BucketURL())
	s := segment(1, mq.Position{}, 10, 100)
	o := upload(t, a, s)
	check := func(what string, err error) {
		t.Helper()
		if !mqerr.Is(err, mqerr.ArchiveUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
		for _, secret := range []string{s3test.Secret, "AKIDEXAMPLE"} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	fake.Before(func(*http.Request) int { return http.StatusForbidden })
	other := segment(2, s.End, 10, 100)
	_, err := a.Upload(t.Context(), "topic", &other.Segment, other.walk)
	check("upload", err)
	_, err = a.List(t.Context(), testPartition)
	check("list", err)
	next := open(t, fake.BucketURL())
	_, err = next.EntryAt(t.Context(), &o, 0)
	check("read", err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fake.Before(func(r *http.Request) int { // the bucket is full
		if r.Method != http.MethodPut {
			return 0
		}
		cancel() // the driver would try three times, with pauses
		return http.StatusInsufficientStorage
	})
	_, err = a.Upload(ctx, "topic", &other.Segment, other.walk)
	check("upload to what is full", err)
	fake.Before(nil)
	upload(t, a, other)
	checkReads(t, a, s, other)
	wrong := open(t, strings.Replace(fake.BucketURL(), s3test.Bucket, "nowhere", 1))
	_, err = wrong.List(t.Context(), testPartition)
	check("a bucket that is not there", err)
}
