package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// startNATS starts this coordinator's NATS server: core publish and subscribe with routes to the other
// coordinators, nothing on disk.
func startNATS(c *Config, log *slog.Logger) (*natsserver.Server, error) {
	o := &natsserver.Options{
		ServerName: c.Name, NoSigs: true, NoLog: true, NoSystemAccount: true, DisableShortFirstPing: true,
		MaxPayload: 64 << 10, MaxPending: 4 << 20, // a slow reader of hints is cut off, and reconnects
		WriteDeadline: time.Second,
	}
	var err error
	if o.Host, o.Port, err = hostPort(c.NATS); err != nil {
		return nil, err
	}
	o.Cluster.Name = "splashdam"
	if o.Cluster.Host, o.Cluster.Port, err = hostPort(c.NATSRoute); err != nil {
		return nil, err
	}
	o.Cluster.PoolSize = -1 // one connection per pair carries hints easily
	for _, p := range c.Peers {
		if p.Name != c.Name {
			o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: p.NATSRoute})
		}
	}
	s, err := natsserver.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("coordinator: NATS: %w", err)
	}
	l := natsLog{log.With("part", "nats"), make(chan string, 1)}
	s.SetLoggerV2(l, false, false, false)
	s.Start()
	// Start does not say whether it could listen; the server only logs that.
	for range 100 {
		if s.ReadyForConnections(100 * time.Millisecond) {
			return s, nil
		}
		select {
		case why := <-l.fatal:
			stopNATS(s)
			return nil, fmt.Errorf("coordinator: NATS: %s", why)
		default:
		}
	}
	stopNATS(s)
	return nil, fmt.Errorf("coordinator: NATS does not listen on %s and %s", c.NATS, c.NATSRoute)
}

func stopNATS(s *natsserver.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

func hostPort(addr string) (string, int, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("coordinator: %w", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return "", 0, fmt.Errorf("coordinator: the port of %s: %w", addr, err)
	}
	return host, n, nil
}

// natsLog passes the server's log on, and the first fatal error to who starts it.
type natsLog struct {
	log   *slog.Logger
	fatal chan string // capacity 1
}

func (n natsLog) write(l slog.Level, format string, args []any) {
	if n.log.Enabled(context.Background(), l) {
		n.log.Log(context.Background(), l, fmt.Sprintf(format, args...))
	}
}

func (n natsLog) Noticef(f string, a ...any) { n.write(slog.LevelDebug, f, a) }
func (n natsLog) Warnf(f string, a ...any)   { n.write(slog.LevelInfo, f, a) }
func (n natsLog) Errorf(f string, a ...any)  { n.write(slog.LevelInfo, f, a) }
func (n natsLog) Debugf(f string, a ...any)  { n.write(slog.LevelDebug, f, a) }
func (n natsLog) Tracef(string, ...any)      {}

// Fatalf would end the process in a server of its own.
func (n natsLog) Fatalf(f string, a ...any) {
	n.write(slog.LevelError, f, a)
	select {
	case n.fatal <- fmt.Sprintf(f, a...):
	default:
	}
}

var _ natsserver.Logger = natsLog{}
