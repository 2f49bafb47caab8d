package load

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/splashdam/splashdam/loadtest/internal/wire"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
)

// Streams publishes at a fixed rate and measures how soon --connections consumers of one group get each message, by
// server-sent events, WebSockets or long polls. With --hold it also keeps streams open that get nothing, to see what they
// cost (see the servers' memory, and --pid for CPU time).
type Streams struct {
	Options `embed:""`
	Kind    string  `enum:"sse,websocket,longpoll" default:"sse" help:"How messages come: sse, websocket or longpoll."`
	Group   string  `default:"streams" help:"Group that consumes."`
	Rate    float64 `default:"200" help:"Messages a second."`
	Credit  int     `default:"100" help:"Messages that may be out to a consumer at once."`
	Hold    int     `default:"0" help:"Further streams (sse) to keep open in a group that gets nothing."`
}

// Run publishes and consumes.
func (s *Streams) Run(ctx context.Context) (*Report, error) {
	if s.Rate <= 0 || s.Credit < 1 || s.Hold < 0 || s.Hold > maxConnections {
		return nil, fmt.Errorf("--rate and --credit must be more than 0, --hold 0 to %d", maxConnections)
	}
	t, err := prepare(ctx, &s.Options)
	if err != nil {
		return nil, err
	}
	r := newRun("streams", &s.Options, t, s)
	quiet, err := s.quiet(ctx, t)
	if err != nil {
		return nil, err
	}
	consume := map[string]func(context.Context, *target, int, *recorder) error{"sse": s.events, "longpoll": s.polls, "websocket": s.socket}[s.Kind]
	const publishers = 4
	err = r.workers(ctx, s.Connections+publishers+s.Hold, 0, func(ctx context.Context, number int, rec *recorder) {
		var err error
		switch n := number - publishers; {
		case n < 0:
			err = s.publish(ctx, t, number, publishers, rec)
		case n < s.Connections:
			err = consume(ctx, t, n, rec)
		default:
			err = s.hold(ctx, t, quiet, n)
		}
		if err != nil && ctx.Err() == nil {
			rec.fail(err.Error())
		}
	})
	return r.finish(ctx, "publish to delivery", s.Size, err)
}

// quiet makes a group that begins after everything, for the streams that are only held.
func (s *Streams) quiet(ctx context.Context, t *target) (string, error) {
	if s.Hold == 0 {
		return "", nil
	}
	const name = "quiet"
	if _, err := t.client.CreateGroup(ctx, t.topic, name, api.GroupInput{Start: &api.StartInput{At: "latest"}}); err != nil {
		return "", err
	}
	return name, t.client.PauseGroup(ctx, t.topic, name)
}

// stamped is a value that begins with when it was published.
func stamped(size int, now time.Time) []byte {
	text := strconv.FormatInt(now.UnixNano(), 10) + " "
	return append([]byte(text), randomText(max(size-len(text), 0))...)
}

func (s *Streams) delivered(rec *recorder, value []byte) {
	at := time.Now()
	text, _, _ := strings.Cut(string(value), " ")
	if nanos, err := strconv.ParseInt(text, 10, 64); err == nil {
		rec.done(time.Unix(0, nanos), at, 1)
	}
}

func (s *Streams) publish(ctx context.Context, t *target, number, publishers int, rec *recorder) error {
	conn := t.conn(ctx, &s.Options, number)
	defer conn.Close()
	due := newPace(s.Rate, publishers, number, time.Now())
	for ctx.Err() == nil {
		due.next(ctx)
		body := stamped(s.Size, time.Now())
		answer, err := conn.Do(wire.Head(t.path("/messages"), "text/plain", len(body)), body)
		if ctx.Err() == nil && (err != nil || answer.Status != 201) {
			rec.fail("publish_" + codeOf(answer, err))
			retryPause(ctx, 0)
		}
	}
	return nil
}

// slim is an HTTP client whose many connections cost this process little.
func slim() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 64, ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10, DisableCompression: true}}
}

func (s *Streams) consumer(t *target, number int, rec *recorder) (*client.Consumer, func(), error) {
	servers := []string{"http://" + t.addresses[(number+1)%len(t.addresses)]}
	c, err := client.New(client.Options{Servers: servers, HTTP: slim()})
	if err != nil {
		return nil, nil, err
	}
	var mu sync.Mutex // handlers run at once, and the recorder is for one
	k := c.Consumer(t.topic, s.Group, func(_ context.Context, d client.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		s.delivered(rec, d.Value)
		return nil
	}, client.ConsumerOptions{Concurrency: s.Credit, Drain: time.Second})
	return k, c.Close, nil
}

func (s *Streams) events(ctx context.Context, t *target, number int, rec *recorder) error {
	k, end, err := s.consumer(t, number, rec)
	if err != nil {
		return err
	}
	defer end()
	return k.RunStream(ctx)
}

func (s *Streams) polls(ctx context.Context, t *target, number int, rec *recorder) error {
	k, end, err := s.consumer(t, number, rec)
	if err != nil {
		return err
	}
	defer end()
	return k.Run(ctx)
}

// socket consumes over a WebSocket, settling on the same connection.
func (s *Streams) socket(ctx context.Context, t *target, number int, rec *recorder) error {
	conn, _, err := websocket.Dial(ctx, "ws://"+t.addresses[(number+1)%len(t.addresses)]+"/v1/stream", nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(-1)
	credit := s.Credit
	send := func(frame any) error {
		b, err := json.Marshal(frame)
		if err != nil {
			return err
		}
		return conn.Write(ctx, websocket.MessageText, b)
	}
	err = send(api.SocketSubscribe{SocketHead: api.SocketHead{Type: api.FrameSubscribe}, Subscription: "s", Topic: t.topic, Group: s.Group, Credit: &credit})
	for err == nil {
		var b []byte
		if _, b, err = conn.Read(ctx); err != nil {
			break
		}
		var f api.SocketAnswer
		if err = json.Unmarshal(b, &f); err != nil || f.Error != nil {
			return fmt.Errorf("frame %.200s: %w", b, err)
		}
		settle := api.SocketSettle{SocketHead: api.SocketHead{Type: api.FrameSettle}}
		for i := range f.Messages {
			s.delivered(rec, []byte(f.Messages[i].Value))
			settle.Ack = append(settle.Ack, f.Messages[i].Receipt)
		}
		if len(settle.Ack) > 0 {
			err = send(settle)
		}
	}
	return err
}

// hold keeps a stream open and reads what keeps it alive.
func (s *Streams) hold(ctx context.Context, t *target, group string, number int) error {
	pause(ctx, s.Warmup*time.Duration(number)/time.Duration(2*s.Hold+s.Connections))
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", t.addresses[number%len(t.addresses)])
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: loadtest\r\n\r\n", t.path("/groups/"+group+"/stream")); err != nil {
		return err
	}
	buf := make([]byte, 512)
	for {
		if _, err := conn.Read(buf); err != nil {
			return fmt.Errorf("a stream that was held ended: %w", err)
		}
	}
}
