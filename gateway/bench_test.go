package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/splashdam/splashdam/shared/meta"
	"github.com/splashdam/splashdam/shared/mq"
)

func batchBody(n, size int) []byte {
	item := `{"value":"` + strings.Repeat("x", size) + `"}`
	return []byte(`{"messages":[` + strings.Repeat(item+",", n-1) + item + `]}`)
}

// BenchmarkPlan reads 1,000 messages of 100 B and builds their batch.
func BenchmarkPlan(b *testing.B) {
	g := &Gateway{}
	t := meta.Topic{ID: 1, Settings: mq.DefaultTopicSettings()}
	body := batchBody(1000, 100)
	r := &itemReader{maxValue: 1 << 20}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		p := newPlan(g, t, 1000)
		p.keyless = 0
		if err := p.readMessages(r, body); err != nil {
			b.Fatal(err)
		}
		p.release()
	}
}

// load sends the same request over connections and reads the answers; the leader and the client share
// the machine with the gateway.
func load(b *testing.B, e *env, connections int, path string, body []byte) {
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	var wg sync.WaitGroup
	work := make(chan struct{})
	for range connections {
		wg.Go(func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(e.g.URL(), "http://"))
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			in := bufio.NewReaderSize(conn, 128<<10)
			for range work {
				if _, err := io.WriteString(conn, request); err != nil {
					b.Error(err)
					return
				}
				resp, err := http.ReadResponse(in, nil)
				if err != nil || resp.StatusCode > 201 {
					b.Error(err, resp)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
			}
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
}

func BenchmarkBatches(b *testing.B) {
	e := newEnv(b)
	e.topic("t")
	body := batchBody(1000, 100)
	load(b, e, 8, "/v1/topics/t/messages/batch", body)
	b.ReportMetric(float64(1000*b.N)/b.Elapsed().Seconds(), "messages/s")
}

func BenchmarkSingles(b *testing.B) {
	e := newEnv(b)
	e.topic("t")
	load(b, e, 64, "/v1/topics/t/messages", []byte(strings.Repeat("x", 100)))
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}

// BenchmarkLines sends lines over 4 streams, 256 under way on each.
func BenchmarkLines(b *testing.B) {
	e := newEnv(b)
	e.topic("t")
	const streams, window = 4, 256
	line := `{"value":"` + strings.Repeat("x", 100) + "\"}\n"
	var wg sync.WaitGroup
	work := make(chan struct{}, streams*window)
	for range streams {
		wg.Go(func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(e.g.URL(), "http://"))
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			out := bufio.NewWriterSize(conn, 64<<10)
			fmt.Fprintf(out, "POST /v1/topics/t/messages/batch HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")
			open := make(chan struct{}, window)
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					b.Error(err)
					return
				}
				in := bufio.NewReaderSize(resp.Body, 64<<10)
				for {
					if _, err := in.ReadSlice('\n'); err != nil {
						return
					}
					<-open
				}
			}()
			for range work {
				select {
				case open <- struct{}{}:
				default:
					_ = out.Flush()
					open <- struct{}{}
				}
				fmt.Fprintf(out, "%x\r\n%s\r\n", len(line), line)
			}
			fmt.Fprint(out, "0\r\n\r\n")
			_ = out.Flush()
			<-answered
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
