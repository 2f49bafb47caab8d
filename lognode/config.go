package lognode

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/splashdam/splashdam/lognode/internal/archive"
	"github.com/splashdam/splashdam/lognode/internal/store"
	"github.com/splashdam/splashdam/shared/config"
	"github.com/splashdam/splashdam/shared/link"
	"github.com/splashdam/splashdam/shared/mq"
)

// Config is all that a log node needs to know.
type Config struct {
	// Name is the node's name in the cluster; it stays with its directory.
	Name string `help:"Name of this node, unique in the cluster." default:"node-1"`
	// Dir holds the store; it belongs to this node alone.
	Dir string `help:"Data directory." default:"./data/node-1" type:"path"`
	// Listen is where gRPC is served; Advertise is how others reach it (default: Listen).
	Listen    string `help:"Address for gRPC (gateways and other nodes)." default:"127.0.0.1:7070"`
	Advertise string `help:"Address that others use, if it is not the one of --listen."`
	// Etcd are the coordinators' client addresses, host:port.
	Etcd []string `help:"Client addresses of the coordinators' etcd." default:"127.0.0.1:2379"`
	// Zone is a failure domain: replicas are spread over zones.
	Zone string `help:"Failure domain of this node."`
	// Capacity weighs the node in placement.
	Capacity int `help:"Weight of this node in placement." default:"1"`
	// LeaseTTL is how long the node counts as alive without a sign of life.
	LeaseTTL time.Duration `help:"How long this node counts as alive without a sign of life." default:"2s"`
	// SegmentBytes is where a segment rolls, VolumeBytes where a volume of the store does.
	SegmentBytes int64 `help:"Size at which a segment rolls, in bytes." default:"536870912"`
	VolumeBytes  int64 `help:"Size of a volume of the store, in bytes." default:"268435456"`
	// BallastBytes is reserved on disk, so that a full disk can be opened again.
	BallastBytes int64 `help:"Size of the file that keeps room for a restart on a full disk, in bytes." default:"67108864"`
	// ArchiveURL is the bucket for the topics that are archived; the same for all nodes. Empty: none.
	ArchiveURL string `name:"archive-url" help:"Bucket for what retention removes of topics with the setting archive (file:///mnt/archive, s3://bucket?region=eu-central-1, gs://bucket, azblob://container)."`
	// Insecure allows addresses other than loopback: this version has no TLS between the tiers.
	Insecure bool `help:"Allow addresses that other machines can reach, without TLS."`
	// Dial is for tests that cut the network; nil is plain TCP. It can't be set from outside.
	Dial link.Dial `kong:"-" json:"-"`
	// BeforeSync is for tests that slow the disk down; see the store's Config. It can't be set from outside.
	BeforeSync func(bytes int64) `kong:"-" json:"-"`
}

// DefaultConfig is a single node on this machine.
func DefaultConfig() Config {
	return Config{Name: "node-1", Dir: "./data/node-1", Listen: "127.0.0.1:7070", Etcd: []string{"127.0.0.1:2379"}, Capacity: 1,
		LeaseTTL: 2 * time.Second, SegmentBytes: 512 << 20, VolumeBytes: 256 << 20, BallastBytes: 64 << 20}
}

// Validate reports everything that is wrong, before anything is bound or written.
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
	want(c.Dir != "", "dir: must not be empty")
	want(len(c.Etcd) > 0, "etcd: at least one address")
	want(c.Insecure || config.IsLoopback(c.Listen), "listen: %s can be reached from other machines and there is no TLS; use a loopback address or --insecure", c.Listen)
	want(c.Capacity >= 1, "capacity: at least 1")
	want(c.LeaseTTL >= time.Second && c.LeaseTTL <= time.Minute, "lease-ttl: 1s to 1m, not %s", c.LeaseTTL)
	want(c.SegmentBytes >= 1<<20, "segment-bytes: at least 1 MiB")
	want(c.VolumeBytes >= 1<<20, "volume-bytes: at least 1 MiB")
	want(c.BallastBytes >= 0, "ballast-bytes: 0 or more")
	if c.ArchiveURL != "" {
		if err := archive.CheckURL(c.ArchiveURL); err != nil {
			errs = append(errs, fmt.Errorf("archive-url: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (c *Config) store() store.Config {
	s := store.DefaultConfig(c.Dir)
	s.VolumeBytes, s.BallastBytes, s.BeforeSync = c.VolumeBytes, c.BallastBytes, c.BeforeSync
	return s
}

func (c *Config) advertise() string {
	if c.Advertise != "" {
		return c.Advertise
	}
	return c.Listen
}

// makeDir makes the data directory for this user only.
func makeDir(dir string) error { return os.MkdirAll(dir, 0o700) }
