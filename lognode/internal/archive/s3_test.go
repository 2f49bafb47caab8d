package archive

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/splashdam/splashdam/shared/mq"
	"github.com/splashdam/splashdam/shared/mqerr"
)

const testSecret = "wJalrXUtnFEMI-a-secret"

// credentials sets what a machine's environment has, and nothing of this one's.
func credentials(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": testSecret, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	} {
		t.Setenv(name, value)
	}
}

// S3 answers what it was given: objects in one piece and in parts, lists of many pages, and nothing is sent twice.
func TestS3(t *testing.T) {
	credentials(t)
	fake := newFakeS3(t)
	fake.page = 2
	a := open(t, fake.url())
	segments := []*testSegment{segment(1, mq.Position{}, 50, 1000)}
	for id := mq.SegmentID(2); id < 7; id++ {
		segments = append(segments, segment(id, segments[id-2].End, 20, 100))
	}
	segments = append(segments, segment(7, segments[5].End, 25, 1<<20)) // in parts
	for _, s := range segments {
		upload(t, a, s)
	}
	checkReads(t, a, segments...)
	if n := len(fake.keys()); n != len(segments)+1 { // and the mark
		t.Errorf("%d objects", n)
	}
	if len(fake.uploads) > 0 || fake.calls[http.MethodPost] != 2 {
		t.Errorf("%d uploads in parts are not complete, after %d calls", len(fake.uploads), fake.calls[http.MethodPost])
	}
	if fake.unsigned > 0 {
		t.Errorf("%d calls had no signature", fake.unsigned)
	}
	puts := fake.calls[http.MethodPut]
	next := open(t, fake.url())
	upload(t, next, segments[6])
	if fake.calls[http.MethodPut] != puts {
		t.Error("the next leader uploaded again what is there")
	}
	checkReads(t, next, segments...)
}

// What is given up in the middle leaves no object, and no parts that cost money.
func TestS3UploadGivenUp(t *testing.T) {
	credentials(t)
	fake := newFakeS3(t)
	a := open(t, fake.url())
	s := segment(1, mq.Position{}, 40, 1<<20)
	err := uploadGivenUp(t, a, s, 35)
	if err == nil || len(fake.keys()) > 0 {
		t.Fatalf("there is %v: %v", fake.keys(), err)
	}
	if len(fake.uploads) > 0 || fake.aborted != 1 {
		t.Errorf("%d uploads lie around, %d were aborted", len(fake.uploads), fake.aborted)
	}
}

// A bucket that refuses is an answer that says so, and the credentials are in none.
func TestS3Refuses(t *testing.T) {
	credentials(t)
	fake := newFakeS3(t)
	a := open(t, fake.url())
	s := segment(1, mq.Position{}, 10, 100)
	o := upload(t, a, s)
	check := func(what string, err error) {
		t.Helper()
		if !mqerr.Is(err, mqerr.ArchiveUnavailable) {
			t.Errorf("%s: %v", what, err)
		}
		for _, secret := range []string{testSecret, "AKIDEXAMPLE", "endpoint=http"} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	refuse := func(f func(r *http.Request) int) {
		fake.mu.Lock()
		fake.refuse = f
		fake.mu.Unlock()
	}
	refuse(func(*http.Request) int { return http.StatusForbidden })
	other := segment(2, s.End, 10, 100)
	_, err := a.Upload(t.Context(), "topic", &other.Segment, other.walk)
	check("upload", err)
	_, err = a.List(t.Context(), testPartition)
	check("list", err)
	next := open(t, fake.url())
	_, err = next.EntryAt(t.Context(), &o, 0)
	check("read", err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	refuse(func(r *http.Request) int { // the bucket is full
		if r.Method != http.MethodPut {
			return 0
		}
		cancel() // the driver would try three times, with pauses
		return http.StatusInsufficientStorage
	})
	_, err = a.Upload(ctx, "topic", &other.Segment, other.walk)
	check("upload to what is full", err)
	refuse(nil)
	upload(t, a, other)
	checkReads(t, a, s, other)
	wrong := open(t, strings.Replace(fake.url(), fakeBucket, "nowhere", 1))
	_, err = wrong.List(t.Context(), testPartition)
	check("a bucket that is not there", err)
}
