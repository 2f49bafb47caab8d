package coordinator

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/splashdam/splashdam/shared/config"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
)

// Peer is one coordinator of the static list by which coordinators find each other.
type Peer struct {
	Name      string `json:"name"`
	EtcdPeer  string `json:"etcd_peer"`  // host:port
	NATSRoute string `json:"nats_route"` // host:port
}

// UnmarshalText reads a peer from a flag: "name,host:port,host:port" (etcd peer, NATS route).
func (p *Peer) UnmarshalText(b []byte) error {
	var f [3]string
	n := 0
	for _, c := range b {
		switch {
		case c != ',':
			f[n] += string(rune(c))
		case n == 2:
			return fmt.Errorf("a peer looks like name,etcd-host:port,nats-host:port; not %q", b)
		default:
			n++
		}
	}
	if n != 2 {
		return fmt.Errorf("a peer looks like name,etcd-host:port,nats-host:port; not %q", b)
	}
	*p = Peer{f[0], f[1], f[2]}
	return nil
}

// UnmarshalJSON reads a peer as an object, which UnmarshalText would otherwise forbid.
func (p *Peer) UnmarshalJSON(b []byte) error {
	type plain Peer
	return json.Unmarshal(b, (*plain)(p))
}

// Config is everything that a coordinator is told; see DefaultConfig.
type Config struct {
	// Name is unique among the coordinators of a cluster and never changes.
	Name string `help:"Name of this coordinator, unique in the cluster." default:"coordinator-1"`
	// Dir holds etcd's data; it must not be shared.
	Dir string `help:"Data directory." default:"data/coordinator-1"`
	// EtcdClient is where log nodes and gateways reach etcd, host:port; listened on and told to others.
	EtcdClient string `name:"etcd-client" help:"Address of etcd for log nodes and gateways." default:"127.0.0.1:2379"`
	// EtcdPeer is where the other coordinators reach this one's etcd, host:port.
	EtcdPeer string `name:"etcd-peer" help:"Address of etcd for the other coordinators." default:"127.0.0.1:2380"`
	// NATS is where log nodes and gateways reach NATS, host:port.
	NATS string `name:"nats" help:"Address of NATS for log nodes and gateways." default:"127.0.0.1:4222"`
	// NATSRoute is where the other coordinators reach this one's NATS, host:port.
	NATSRoute string `name:"nats-route" help:"Address of NATS for the other coordinators." default:"127.0.0.1:6222"`
	// Peers lists all coordinators (1, 3 or 5), this one included; empty for a single one.
	Peers []Peer `help:"All coordinators, this one too: name,etcd-host:port,nats-host:port." sep:";"`
	// LeaseTTL is how long the controller's lease and this coordinator's registration outlive it.
	LeaseTTL time.Duration `name:"lease-ttl" help:"How long a lease outlives its holder." default:"2s"`
	// RepairAfter is how long a node must be away before other nodes copy the sealed segments that it holds.
	RepairAfter time.Duration `name:"repair-after" help:"How long a node is away before its data is copied elsewhere." default:"60s"`
	// RecoverCluster is the id of a cluster whose coordinators lost their data: an empty etcd takes it up, and waits for its metadata to
	// be rebuilt from what the log nodes hold. It does nothing where that has been done.
	RecoverCluster string `name:"recover-cluster" help:"Id of a cluster whose coordinators lost their data, to be rebuilt."`
	// Insecure allows addresses that other machines can reach: this version has no TLS between tiers.
	Insecure bool `help:"Allow addresses that other machines can reach, without TLS."`
	// Dial is for tests that cut the network; nil is plain TCP. It can't be set from outside.
	Dial link.Dial `kong:"-" json:"-"`
	// Patience is for tests, too: how long log nodes are waited for at least where they would be passed over sooner. One that lives
	// and answers late, as on a busy machine, would not lead what it is to lead.
	Patience time.Duration `kong:"-"`
}

// DefaultConfig is a single coordinator on the usual ports of this machine.
func DefaultConfig() Config {
	return Config{
		Name: "coordinator-1", Dir: "data/coordinator-1", EtcdClient: "127.0.0.1:2379", EtcdPeer: "127.0.0.1:2380",
		NATS: "127.0.0.1:4222", NATSRoute: "127.0.0.1:6222", LeaseTTL: 2 * time.Second, RepairAfter: time.Minute,
	}
}

// Validate reports every problem at once.
func (c *Config) Validate() error {
	var errs []error
	if err := mq.CheckName(c.Name); err != nil {
		errs = append(errs, fmt.Errorf("name: %w", err))
	}
	if c.Dir == "" {
		errs = append(errs, errors.New("dir: must not be empty"))
	}
	seen := map[string]string{}
	for _, a := range []struct{ field, addr string }{
		{"etcd-client", c.EtcdClient}, {"etcd-peer", c.EtcdPeer}, {"nats", c.NATS}, {"nats-route", c.NATSRoute}} {
		if err := checkAddr(a.field, a.addr, c.Insecure); err != nil {
			errs = append(errs, err)
		} else if other, ok := seen[a.addr]; ok {
			errs = append(errs, fmt.Errorf("%s: %s is also %s", a.field, a.addr, other))
		}
		seen[a.addr] = a.field
	}
	if id := c.RecoverCluster; id != "" && !isClusterID(id) {
		errs = append(errs, fmt.Errorf("recover-cluster: an id has 32 hex digits, not %q", id))
	}
	if c.RepairAfter < time.Second {
		errs = append(errs, fmt.Errorf("repair-after: at least 1s, not %s", c.RepairAfter))
	}
	if c.LeaseTTL < 2*time.Second || c.LeaseTTL > time.Minute {
		errs = append(errs, errors.New("lease-ttl: must be 2s (the least that etcd grants) to 1m"))
	}
	return errors.Join(append(errs, c.checkPeers()...)...)
}

func isClusterID(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 16
}

func (c *Config) checkPeers() (errs []error) {
	if len(c.Peers) == 0 {
		return nil
	}
	if n := len(c.Peers); n != 1 && n != 3 && n != 5 {
		errs = append(errs, fmt.Errorf("peers: there are %d; 1, 3 or 5 make sense", n))
	}
	names := map[string]bool{}
	self := false
	for i, p := range c.Peers {
		at := "peers[" + strconv.Itoa(i) + "]"
		if err := mq.CheckName(p.Name); err != nil {
			errs = append(errs, fmt.Errorf("%s: name: %w", at, err))
		}
		if names[p.Name] {
			errs = append(errs, fmt.Errorf("%s: the name %q is there twice", at, p.Name))
		}
		names[p.Name] = true
		for _, a := range []struct{ field, addr string }{{"etcd peer", p.EtcdPeer}, {"NATS route", p.NATSRoute}} {
			if err := checkAddr(at+": "+a.field, a.addr, c.Insecure); err != nil {
				errs = append(errs, err)
			}
		}
		if p.Name == c.Name {
			self = true
			if p.EtcdPeer != c.EtcdPeer || p.NATSRoute != c.NATSRoute {
				errs = append(errs, fmt.Errorf("%s: says other addresses of this coordinator than etcd-peer and nats-route", at))
			}
		}
	}
	if !self {
		errs = append(errs, fmt.Errorf("peers: this coordinator (%q) is not in the list", c.Name))
	}
	return errs
}

// checkAddr wants a host and a port that others can dial, so neither may be left out.
func checkAddr(field, addr string, insecure bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s: %q is not host:port", field, addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
		return fmt.Errorf("%s: %q needs a host and a port from 1 to 65535: others are told to dial it", field, addr)
	}
	return config.CheckListen(field, addr, insecure)
}
