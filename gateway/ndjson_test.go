package gateway

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/mq"
)

// lines is a publish stream: what is written goes out at once, results are read one at a time.
type lines struct {
	t    *testing.T
	out  *io.PipeWriter
	in   *bufio.Reader
	resp *http.Response
}

func (e *env) lines(t *testing.T, topic string, headers ...string) *lines {
	t.Helper()
	r, w := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, e.g.URL()+"/v1/topics/"+topic+"/messages/batch", r)
	e.check(err)
	req.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := e.client.Do(req)
	e.check(err)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	t.Cleanup(func() { _ = w.Close(); _ = resp.Body.Close() })
	return &lines{t, w, bufio.NewReader(resp.Body), resp}
}

func (l *lines) send(text string) {
	l.t.Helper()
	if _, err := io.WriteString(l.out, text); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lines) result() api.PublishResult {
	l.t.Helper()
	b, err := l.in.ReadBytes('\n')
	var r api.PublishResult
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		l.t.Fatalf("%q: %v", b, err)
	}
	return r
}

// end closes the stream and wants no more results.
func (l *lines) end() {
	l.t.Helper()
	_ = l.out.Close()
	if b, err := io.ReadAll(l.in); err != nil || len(b) != 0 {
		l.t.Errorf("after the end: %q, %v", b, err)
	}
}

func TestLinesAreAnsweredOneByOne(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	s := e.lines(t, "t")
	for i := range 3 { // each is answered before the next one is sent
		s.send(fmt.Sprintf(`{"value":"v%d"}`+"\n", i))
		if r := s.result(); r.Error != nil || r.Offset != uint64(i) || r.ID == "" {
			t.Fatalf("line %d: %+v", i, r)
		}
	}
	// Bad lines get errors in their place, and the stream goes on.
	s.send(`{"value":"a"}` + "\n" + `{"value":` + "\n\n  \n" + `[1]` + "\n" + `{"value":"?","encoding":"base64"}` + "\r\n" + `{"value":"b"} {}` + "\n" + `{"value":"c"}`)
	s.send("\n" + `{"value":"the last one ends with the stream"}`)
	_ = s.out.Close()
	want := []string{"", "invalid_json", "validation_failed", "validation_failed", "invalid_json", "", ""}
	next := uint64(3)
	for i, code := range want {
		r := s.result()
		switch {
		case code == "" && (r.Error != nil || r.Offset != next):
			t.Errorf("line %d: %+v, %+v, want offset %d", i, r, r.Error, next)
		case code != "" && (r.Error == nil || r.Error.Code != code):
			t.Errorf("line %d: %+v, want %s", i, r, code)
		}
		if code == "" {
			next++
		}
	}
	s.end()
}

// A line beyond the limit is an error of its own.
func TestLineTooLong(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition, func(s *mq.TopicSettings) { s.MaxMessageBytes = 100 })
	s := e.lines(t, "t")
	go s.send(`{"value":"` + strings.Repeat("x", 4<<20) + `"}` + "\n" + `{"value":"` + strings.Repeat("y", 101) + `"}` + "\n" + `{"value":"z"}` + "\n")
	for i := range 2 {
		if r := s.result(); r.Error == nil || r.Error.Code != "message_too_large" {
			t.Errorf("line %d: %+v", i, r)
		}
	}
	if r := s.result(); r.Error != nil || r.Offset != 0 {
		t.Errorf("the line after them: %+v", r)
	}
	s.end()
}

// Many lines at once: all answered, in order, and the order within a key holds.
func TestLinesKeepOrder(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	topic := e.topic("t")
	s := e.lines(t, "t")
	const n, keys = 30_000, 7
	go func() {
		w := bufio.NewWriterSize(s.out, 64<<10)
		for i := range n {
			fmt.Fprintf(w, `{"value":"%d","key":"k%d"}`+"\n", i, i%keys)
		}
		_ = w.Flush()
		_ = s.out.Close()
	}()
	at := map[string]uint64{} // key to its last offset
	for i := range n {
		r := s.result()
		k := fmt.Sprint(i % keys)
		if last, ok := at[k]; r.Error != nil || ok && r.Offset <= last {
			t.Fatalf("line %d: %+v after offset %d", i, r, last)
		}
		at[k] = r.Offset
	}
	s.end()
	stored := 0
	e.leader.with(func() {
		for p := range topic.Settings.Partitions {
			last := map[string]int{}
			for _, b := range e.leader.part(mq.PartitionID{Topic: topic.ID, Number: p}).batches {
				_ = b.batch.Each(b.batch.Packed(), func(_ int, m *mq.Message) bool {
					var v int
					if _, err := fmt.Sscan(string(m.Value), &v); err != nil || v < last[string(m.Key)] {
						t.Errorf("%s came after %d", m.Value, last[string(m.Key)])
					}
					last[string(m.Key)] = v
					stored++
					return true
				})
			}
		}
	})
	if stored != n {
		t.Errorf("%d stored", stored)
	}
}

// A drain ends streams after the answers to what was read.
func TestDrainEndsLines(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.topic("t", onePartition)
	s := e.lines(t, "t")
	s.send(`{"value":"a"}` + "\n")
	if r := s.result(); r.Error != nil {
		t.Fatalf("%+v", r)
	}
	if err := e.g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if b, err := io.ReadAll(s.in); err != nil || len(b) != 0 {
		t.Errorf("after the drain: %q, %v", b, err)
	}
}

// A stream to a topic that is not there makes it with its first sound line.
func TestLinesMakeTheTopic(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	s := e.lines(t, "fresh")
	s.send("nonsense\n")
	if r := s.result(); r.Error == nil || r.Error.Code != "invalid_json" {
		t.Errorf("%+v", r)
	}
	if _, ok := e.view.Topic("fresh"); ok {
		t.Error("a bad line made a topic")
	}
	s.send(`{"value":"x"}` + "\n")
	if r := s.result(); r.Error != nil {
		t.Errorf("%+v", r)
	}
	s.end()
}

// A stream may be packed: what a client flushes is answered while it goes on.
func TestPackedLines(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for enc, wrap := range map[string]func(io.Writer) packer{
		"gzip": func(w io.Writer) packer { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) packer {
			z, err := zstd.NewWriter(w)
			e.check(err)
			return z
		},
	} {
		l := e.lines(t, "packed-"+enc, "Content-Encoding", enc)
		z := wrap(l.out)
		for i := range 3 {
			_, err := io.WriteString(z, `{"value":"x"}`+"\n")
			e.check(err)
			e.check(z.Flush())
			if r := l.result(); r.Error != nil || r.ID == "" {
				t.Errorf("%s, line %d: %+v", enc, i, r)
			}
		}
		e.check(z.Close())
		l.end()
	}
	// What can't be unpacked is said, and what came before it is stored.
	l := e.lines(t, "packed-not", "Content-Encoding", "gzip")
	l.send("this is not gzip at all\n")
	if r := l.result(); r.Error == nil || r.Error.Code != "invalid_request" {
		t.Errorf("not gzip: %+v", r)
	}
	l.end()
	if a := e.post("/v1/topics/t/messages/batch", "x", "Content-Type", "application/x-ndjson", "Content-Encoding", "br"); a.code(t) != "unsupported_media_type" {
		t.Errorf("br: %d %s", a.status, a.body)
	}
}

type packer interface {
	io.WriteCloser
	Flush() error
}
