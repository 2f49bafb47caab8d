// Package s3test is a small S3 in the test's own process, as net/http/httptest is a small server: one bucket with as much of the
// protocol as the archive needs. Only tests import it.
package s3test

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
	"time"
)

// Server is the bucket: PUT, GET with Range, HEAD, LIST (version 2, pageful by pageful), DELETE, and uploads in parts. It checks no
// signatures, but counts what has none. Many goroutines may use it.
type Server struct {
	*httptest.Server

	mu      sync.Mutex
	page    int
	objects map[string][]byte
	uploads map[string]map[int][]byte // the parts of what is not complete
	stats   Stats
	calls   map[string]int
	before  func(r *http.Request) int
}

// Stats are what the server has seen.
type Stats struct {
	// Incomplete uploads are begun and neither completed nor aborted.
	Incomplete, Aborted int
	// Unsigned calls had no signature.
	Unsigned int
}

// Bucket is the name of the one bucket.
const Bucket = "attic"

// Secret is the key in Environment; no log and no answer may hold it.
const Secret = "wJalrXUtnFEMI-a-secret"

// changed is the time of every object.
var changed = time.Unix(1_700_000_000, 0).UTC()

// Environment is what a process that uses the bucket has in its environment: credentials for it, and for nothing else.
func Environment() map[string]string {
	return map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": Secret, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
	}
}

// Start starts a server. Close ends it.
func Start() *Server {
	f := &Server{page: 1000, objects: map[string][]byte{}, uploads: map[string]map[int][]byte{}, calls: map[string]int{}}
	f.Server = httptest.NewServer(f)
	return f
}

// BucketURL is what an operator writes for the bucket.
func (f *Server) BucketURL() string {
	return "s3://" + Bucket + "?region=eu-central-1&s3ForcePathStyle=true&endpoint=" + f.URL
}

// Page sets how many keys a page of a list holds.
func (f *Server) Page(keys int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.page = keys
}

// Before sets what is called with each request before it has an effect; a status but 0 is the answer. It may block. nil: nothing.
func (f *Server) Before(refuse func(r *http.Request) int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = refuse
}

// Calls is how many requests there were of a method.
func (f *Server) Calls(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

// Stats are the counts so far.
func (f *Server) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Incomplete = len(f.uploads)
	return s
}

// Keys are the names of all objects, in order.
func (f *Server) Keys() (out []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k := range f.objects {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// ServeHTTP implements http.Handler.
func (f *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := requestBody(r)
	f.mu.Lock()
	f.calls[r.Method]++
	if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=") {
		f.stats.Unsigned++
	}
	before := f.before
	f.mu.Unlock()
	if before != nil {
		if status := before(r); status != 0 {
			fail(w, status, "Refused")
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	bucket, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case err != nil:
		fail(w, http.StatusBadRequest, "IncompleteBody")
	case bucket != Bucket:
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

func (f *Server) get(w http.ResponseWriter, r *http.Request, key string) {
	data, ok := f.objects[key]
	if !ok {
		fail(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	http.ServeContent(w, r, "", changed, strings.NewReader(string(data)))
}

func (f *Server) inParts(w http.ResponseWriter, r *http.Request, key string, body []byte) {
	q := r.URL.Query()
	id := q.Get("uploadId")
	parts := f.uploads[id]
	switch {
	case r.Method == http.MethodPost && id == "":
		id = fmt.Sprintf("upload-%d", f.calls[http.MethodPost])
		f.uploads[id] = map[int][]byte{}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><Bucket>%s</Bucket><Key>%s</Key><UploadId>%s</UploadId></InitiateMultipartUploadResult>", Bucket, key, id)
	case parts == nil:
		fail(w, http.StatusNotFound, "NoSuchUpload")
	case r.Method == http.MethodPut:
		n, _ := strconv.Atoi(q.Get("partNumber"))
		parts[n] = body
		w.Header().Set("ETag", fmt.Sprintf(`"part-%d"`, n))
	case r.Method == http.MethodDelete:
		delete(f.uploads, id)
		f.stats.Aborted++
		w.WriteHeader(http.StatusNoContent)
	default:
		var whole []byte
		for n := 1; n <= len(parts); n++ {
			whole = append(whole, parts[n]...)
		}
		f.objects[key] = whole
		delete(f.uploads, id)
		fmt.Fprintf(w, "<CompleteMultipartUploadResult><Bucket>%s</Bucket><Key>%s</Key></CompleteMultipartUploadResult>", Bucket, key)
	}
}

func (f *Server) list(w http.ResponseWriter, r *http.Request) {
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
			out.Contents = append(out.Contents, content{key, len(data), changed.Format("2006-01-02T15:04:05.000Z")})
		}
	}
	slices.SortFunc(out.Contents, func(a, b content) int { return strings.Compare(a.Key, b.Key) })
	if len(out.Contents) > f.page {
		out.Contents, out.IsTruncated = out.Contents[:f.page], true
		out.NextContinuationToken = out.Contents[f.page-1].Key
	}
	_ = xml.NewEncoder(w).Encode(out)
}
