package gateway

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/splashdam/splashdam/shared/mq"
)

// Config says how a gateway runs. Begin with DefaultConfig.
type Config struct {
	// Name is unique among gateways; it is in every batch that this one builds.
	Name string
	// Listen is the HTTP address (host:port); port 0 takes a free one.
	Listen string
	// Advertise is the address under which others reach it; empty: the one listened on.
	Advertise string
	// Etcd are the client addresses (host:port) of the coordinators' etcd.
	Etcd []string
	// AutoCreate makes a topic with default settings when something is published to it.
	AutoCreate bool
	// RequestTimeout bounds what a request waits for log nodes and coordinators (a long poll's wait comes on top).
	RequestTimeout time.Duration
	// HeaderTimeout and BodyTimeout bound how long a client may take to send headers and a body; IdleTimeout
	// how long a connection may rest between requests, and a stream between two lines.
	HeaderTimeout, BodyTimeout, IdleTimeout time.Duration
	// MaxHeaderBytes bounds a request's headers as a whole: beyond it 431 and the connection closes.
	MaxHeaderBytes int
	// MaxBodyBytes bounds a batch's body, as sent and unpacked: beyond it 413.
	MaxBodyBytes int64
	// MaxBuffered bounds the bytes of all bodies that are in memory at once: beyond it 503 overloaded.
	MaxBuffered int64
	// MaxWaiting bounds the long polls that wait at once: beyond it 503 overloaded.
	MaxWaiting int
	// LeaseTTL is how long after its end /gateways/<name> still names this gateway.
	LeaseTTL time.Duration
	// Insecure allows listening beyond loopback although this version has no TLS and no API keys.
	Insecure bool
}

// DefaultConfig is what a gateway uses where nothing else is said.
func DefaultConfig() Config {
	return Config{
		Name:           "gateway-1",
		Listen:         "127.0.0.1:8080",
		AutoCreate:     true,
		RequestTimeout: 10 * time.Second,
		HeaderTimeout:  10 * time.Second,
		BodyTimeout:    30 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 640 << 10, // 64 message headers of 8 KiB, and the request's own
		MaxBodyBytes:   48 << 20,  // 32 MiB of messages as base64 in JSON, with names around them
		MaxBuffered:    512 << 20,
		MaxWaiting:     20_000,
		LeaseTTL:       5 * time.Second,
	}
}

// Validate reports every problem at once, before anything binds.
func (c *Config) Validate() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if err := mq.CheckName(c.Name); err != nil {
		errs = append(errs, fmt.Errorf("name: %w", err))
	}
	host, _, err := net.SplitHostPort(c.Listen)
	want(err == nil, "listen: %q is not host:port", c.Listen)
	want(err != nil || c.Insecure || isLoopback(host),
		"listen: %s is reachable from other machines, and this version has no TLS; set insecure if that is meant", c.Listen)
	if c.Advertise != "" {
		_, _, err := net.SplitHostPort(c.Advertise)
		want(err == nil, "advertise: %q is not host:port", c.Advertise)
	}
	want(len(c.Etcd) > 0, "etcd: at least one coordinator's etcd address is needed")
	for _, d := range [...]struct {
		name string
		v    time.Duration
	}{{"request timeout", c.RequestTimeout}, {"header timeout", c.HeaderTimeout}, {"body timeout", c.BodyTimeout},
		{"idle timeout", c.IdleTimeout}, {"lease TTL", c.LeaseTTL}} {
		want(d.v >= 100*time.Millisecond && d.v <= time.Hour, "%s: %s is not 100ms to 1h", d.name, d.v)
	}
	want(c.MaxHeaderBytes >= 4<<10, "max header bytes: %d is less than 4096", c.MaxHeaderBytes)
	want(c.MaxBodyBytes >= 1<<10, "max body bytes: %d is less than 1024", c.MaxBodyBytes)
	want(c.MaxBuffered >= c.MaxBodyBytes, "max buffered: %d is less than one body (%d)", c.MaxBuffered, c.MaxBodyBytes)
	want(c.MaxWaiting >= 1, "max waiting: must be at least 1")
	return errors.Join(errs...)
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
