package archive

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fakeS3 is one bucket with as much of S3's protocol as the archive needs: PUT, GET with Range, HEAD, LIST (version 2, pageful
// by pageful), DELETE, and uploads in parts. It checks no signatures, but that there are some.
type fakeS3 struct {
	*httptest.Server
	page int // how many keys a page of a list holds

	mu       sync.Mutex
	objects  map[string][]byte
	uploads  map[string]map[int][]byte // the parts of what is not complete
	aborted  int
	unsigned int
	calls    map[string]int
	refuse   func(r *http.Request) int // the status to answer instead, or 0
}

const fakeBucket = "attic"

func newFakeS3(t *testing.T) *fakeS3 {
	f := &fakeS3{page: 1000, objects: map[string][]byte{}, uploads: map[string]map[int][]byte{}, calls: map[string]int{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

// url is what an operator writes for it.
func (f *fakeS3) url() string {
	return "s3://" + fakeBucket + "?region=eu-central-1&s3ForcePathStyle=true&endpoint=" + f.URL
}

// keys are the names of all objects, in order.
func (f *fakeS3) keys() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range f.objects {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func (f *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := requestBody(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[r.Method]++
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=") {
		f.unsigned++
	}
	if f.refuse != nil {
		if status := f.refuse(r); status != 0 {
			fail(w, status, "Refused")
			return
		}
	}
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case err != nil:
		fail(w, http.StatusBadRequest, "IncompleteBody")
	case bucket != fakeBucket:
		fail(w, http.StatusNotFound, "NoSuchBucket")
	case key == "":
		f.list(w, r)
	case r.URL.Query().Has("uploadId") || r.URL.Query().Has("uploads"):
		f.inParts(w, r, key, body)
	case r.Method == http.MethodPut:
		f.objects[key] = body
		w.Header().Set("ETag", `"one"`)
	case r.Method == http.MethodDelete:
		delete(f.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		f.get(w, r, key)
	}
}

// requestBody undoes the framing that a client may put around a body to have a checksum behind it.
func requestBody(r *http.Request) ([]byte, error) {
	if !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		return io.ReadAll(r.Body)
	}
	var out []byte
	for in := bufio.NewReader(r.Body); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(size, 16, 32)
		if err != nil || n == 0 {
			return out, err
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, err
		}
		out = append(out, chunk[:n]...)
	}
}

func fail(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, code)
}

func (f *fakeS3) get(w http.ResponseWriter, r *http.Request, key string) {
	data, ok := f.objects[key]
	if !ok {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	http.ServeContent(w, r, "", testTime, strings.NewReader(string(data)))
}

func (f *fakeS3) inParts(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	q := r.URL.Query()
	id := q.Get("uploadId")
	parts := f.uploads[id]
	switch {
	case r.Method == http.MethodPost && id == "":
		id = fmt.Sprintf("upload-%d", f.calls[http.MethodPost])
		f.uploads[id] = map[int][]byte{}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><Bucket>%s</Bucket><Key>%s</Key><UploadId>%s</UploadId></InitiateMultipartUploadResult>", fakeBucket, key, id)
	case parts == nil:
		fail(w, http.StatusNotFound, "NoSuchUpload")
	case r.Method == http.MethodPut:
		n, _ := strconv.Atoi(q.Get("partNumber"))
		parts[n] = body
		w.Header().Set("ETag", fmt.Sprintf(`"part-%d"`, n))
	case r.Method == http.MethodDelete:
		delete(f.uploads, id)
		f.aborted++
		w.WriteHeader(http.StatusNoContent)
	default:
		var whole []byte
		for n := 1; n <= len(parts); n++ {
			whole = append(whole, parts[n]...)
		}
		f.objects[key] = whole
		delete(f.uploads, id)
		fmt.Fprintf(w, "<CompleteMultipartUploadResult><Bucket>%s</Bucket><Key>%s</Key></CompleteMultipartUploadResult>", fakeBucket, key)
	}
}

func (f *fakeS3) list(w http.ResponseWriter, r *http.Request) {
	type content struct {
		Key          string
		Size         int
		LastModified string
	}
	var out struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string `xml:",omitempty"`
		Contents              []content
	}
	q := r.URL.Query()
	for key, data := range f.objects {
		if strings.HasPrefix(key, q.Get("prefix")) && key > q.Get("continuation-token") {
			out.Contents = append(out.Contents, content{key, len(data), testTime.Format("2006-01-02T15:04:05.000Z")})
		}
	}
	slices.SortFunc(out.Contents, func(a, b content) int { return strings.Compare(a.Key, b.Key) })
	if len(out.Contents) > f.page {
		out.Contents, out.IsTruncated = out.Contents[:f.page], true
		out.NextContinuationToken = out.Contents[f.page-1].Key
	}
	_ = xml.NewEncoder(w).Encode(out)
}
