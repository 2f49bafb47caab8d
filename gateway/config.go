package gateway

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/splashdam/splashdam/shared/config"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
)

// Config says how a gateway runs. Begin with DefaultConfig.
type Config struct {
	// Name is unique among gateways; it is in every batch that this one builds.
	Name string `help:"Name of this gateway, unique among gateways." default:"gateway-1"`
	// Listen is the HTTP address (host:port); port 0 takes a free one.
	Listen string `help:"HTTP address, host:port." default:"127.0.0.1:8080"`
	// Advertise is the address under which others reach it; empty: the one listened on.
	Advertise string `help:"Address under which others reach it, if not that of --listen."`
	// Etcd are the client addresses (host:port) of the coordinators' etcd.
	Etcd []string `help:"Client addresses of the coordinators' etcd." required:""`
	// AutoCreate makes a topic with default settings when something is published to it.
	AutoCreate bool `help:"Make topics when something is published to them." default:"true" negatable:""`
	// RequestTimeout bounds what a request waits for log nodes and coordinators (a long poll's wait comes on top).
	RequestTimeout time.Duration `help:"How long a request waits for log nodes and coordinators." default:"10s"`
	// HeaderTimeout and BodyTimeout bound how long a client may take to send headers and a body; IdleTimeout
	// how long a connection may rest between requests, and a stream between two lines.
	HeaderTimeout time.Duration `help:"How long a client may take to send headers." default:"10s"`
	BodyTimeout   time.Duration `help:"How long a client may take to send a body." default:"30s"`
	IdleTimeout   time.Duration `help:"How long a connection or a stream may rest." default:"2m"`
	// StallTimeout is how long a client that reads an answer or a stream may take nothing of it: beyond it the connection
	// closes, and what was not written is given back.
	StallTimeout time.Duration `help:"How long a client may read nothing of an answer." default:"15s"`
	// Origins are patterns of hosts (path.Match, "*.example.com") whose pages may send here what changes something, and open
	// streams and WebSockets, beside the gateway's own. Programs send no Origin and are not asked.
	Origins []string `help:"Hosts (patterns) whose pages may change things and open streams, beside the gateway's own."`
	// MaxHeaderBytes bounds a request's headers as a whole: beyond it 431 and the connection closes.
	MaxHeaderBytes int `help:"Bytes of a request's headers." default:"655360"`
	// MaxBodyBytes bounds a batch's body, as sent and unpacked: beyond it 413.
	MaxBodyBytes int64 `help:"Bytes of a batch's body." default:"50331648"`
	// MaxBuffered bounds the bytes of all bodies that are in memory at once: beyond it 503 overloaded.
	MaxBuffered int64 `help:"Bytes of all bodies in memory at once." default:"536870912"`
	// MaxWaiting bounds the long polls that wait at once: beyond it 503 overloaded.
	MaxWaiting int `help:"Long polls that wait at once." default:"20000"`
	// MaxPartitions bounds the partitions of all topics: a call that would make more is refused. Each costs memory and
	// files on its nodes, and one request can ask for 1,024. Two gateways at once may exceed it by what both are making.
	MaxPartitions int `help:"Partitions of all topics together." default:"20000"`
	// LeaseTTL is how long after its end /gateways/<name> still names this gateway.
	LeaseTTL time.Duration `help:"How long the cluster names this gateway after it vanished." default:"5s"`
	// WebhooksAllowPrivate lets webhooks reach loopback and private addresses, if they too say allow_private. Who may
	// make webhooks can then make this gateway send requests to whatever it reaches.
	WebhooksAllowPrivate bool `help:"Let webhooks with allow_private reach loopback and private addresses."`
	// Insecure allows listening beyond loopback although this version has no TLS and no API keys.
	Insecure bool `help:"Allow addresses that other machines reach, without TLS."`
	// Dial is for tests that cut the network; nil is plain TCP. It can't be set from outside.
	Dial link.Dial `kong:"-" json:"-"`
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
		StallTimeout:   15 * time.Second,
		MaxHeaderBytes: 640 << 10, // 64 message headers of 8 KiB, and the request's own
		MaxBodyBytes:   48 << 20,  // 32 MiB of messages as base64 in JSON, with names around them
		MaxBuffered:    512 << 20,
		MaxWaiting:     20_000,
		MaxPartitions:  20_000,
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
	if err := config.CheckListen("listen", c.Listen, c.Insecure); err != nil {
		errs = append(errs, err)
	}
	if c.Advertise != "" {
		_, _, err := net.SplitHostPort(c.Advertise)
		want(err == nil, "advertise: %q is not host:port", c.Advertise)
	}
	want(len(c.Etcd) > 0, "etcd: at least one coordinator's etcd address is needed")
	for _, d := range [...]struct {
		name string
		v    time.Duration
	}{{"request timeout", c.RequestTimeout}, {"header timeout", c.HeaderTimeout}, {"body timeout", c.BodyTimeout},
		{"idle timeout", c.IdleTimeout}, {"stall timeout", c.StallTimeout}, {"lease TTL", c.LeaseTTL}} {
		want(d.v >= 100*time.Millisecond && d.v <= time.Hour, "%s: %s is not 100ms to 1h", d.name, d.v)
	}
	want(c.MaxHeaderBytes >= 4<<10, "max header bytes: %d is less than 4096", c.MaxHeaderBytes)
	want(c.MaxBodyBytes >= 1<<10, "max body bytes: %d is less than 1024", c.MaxBodyBytes)
	want(c.MaxBuffered >= c.MaxBodyBytes, "max buffered: %d is less than one body (%d)", c.MaxBuffered, c.MaxBodyBytes)
	want(c.MaxWaiting >= 1, "max waiting: must be at least 1")
	want(c.MaxPartitions >= 1, "max partitions: must be at least 1")
	return errors.Join(errs...)
}
