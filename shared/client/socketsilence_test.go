package client

import (
	"bufio"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipeServer answers the handshake of a WebSocket over a pipe, so that a connection can run on fake time.
type pipeServer struct {
	conn   net.Conn
	frozen bool // says nothing when it is asked whether it lives
}

func (p *pipeServer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/livez" {
		connected(r)
		if p.frozen {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		return reply(200, "ok"), nil
	}
	ours, theirs := net.Pipe()
	p.conn = ours
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Request: r, Body: theirs, Header: http.Header{"Connection": {"Upgrade"},
		"Upgrade": {"websocket"}, "Sec-Websocket-Accept": {base64.StdEncoding.EncodeToString(sum[:])}}}, nil
}

// A server that pings keeps a socket open; one that has vanished loses it after a while, and who waits is told: sooner when
// it does not say that it lives either.
func TestSocketSilence(t *testing.T) {
	for frozen, want := range map[bool]time.Duration{false: streamSilence, true: waitSilence + pulseWait} {
		synctest.Test(t, func(t *testing.T) {
			p := &pipeServer{}
			c, err := New(Options{HTTP: &http.Client{Transport: p}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Socket(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			go func() { // takes what comes, and ends with the pipe
				_, _ = io.Copy(io.Discard, bufio.NewReader(p.conn))
			}()
			defer func() { _ = p.conn.Close() }()
			for i := range 10 {
				if i > 0 {
					time.Sleep(15 * time.Second)
				}
				if _, err := p.conn.Write([]byte{0x89, 0}); err != nil { // a ping without a payload
					t.Fatal(err)
				}
			}
			synctest.Wait()
			if s.ctx.Err() != nil {
				t.Fatalf("ended in spite of pings: %v", context.Cause(s.ctx))
			}
			p.frozen = frozen
			began := time.Now()
			_, err = s.Publish(t.Context(), "t", []Message{{}}) // is never answered
			if took := time.Since(began); !IsOutcomeUnknown(err) || !errors.Is(err, ErrSilent) || took != want {
				t.Errorf("frozen %t, after %s, want %s: %v", frozen, took, want, err)
			}
		})
	}
}
