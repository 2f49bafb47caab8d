// Package load puts load on a cluster over its HTTP API and measures what comes back: publishing, streams of
// lines, consuming, both at once with a checker, wake-ups of long polls, and long polls that only wait.
package load

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/splashdam/splashdam/loadtest/internal/wire"
	"github.com/splashdam/splashdam/shared/api"
	"github.com/splashdam/splashdam/shared/client"
	"github.com/splashdam/splashdam/shared/mqerr"
)

// Options are common to all modes.
type Options struct {
	Server      []string      `default:"http://127.0.0.1:8080" env:"SPLASHDAM_SERVER" help:"Base URLs of gateways; connections are spread over them."`
	Topic       string        `help:"Topic; default: one that is made for the run and deleted after it."`
	Keep        bool          `help:"Keep the topic that was made for the run."`
	Partitions  uint32        `default:"4" help:"Partitions of a topic that is made."`
	Replicas    int           `default:"0" help:"Replicas of a topic that is made; 0: the cluster's default."`
	Connections int           `short:"c" default:"8" help:"Connections that publish (consume: that consume)."`
	Size        int           `default:"100" help:"Bytes of a message's value."`
	Duration    time.Duration `short:"d" default:"30s" help:"How long to measure, after the warm-up."`
	Warmup      time.Duration `default:"3s" help:"How long to run before measuring."`
	Timeout     time.Duration `default:"40s" help:"How long a request may take."`
	PID         []int         `name:"pid" help:"Processes whose CPU time is reported (the servers)."`
}

// maxConnections bounds goroutines and buffers (64 KiB each) of one process.
const maxConnections = 20_000

// Validate is called by the parser of the command line.
func (o *Options) Validate() error {
	switch {
	case o.Connections < 1 || o.Connections > maxConnections:
		return fmt.Errorf("--connections must be 1 to %d", maxConnections)
	case o.Size < 0 || o.Size > 16<<20:
		return fmt.Errorf("--size must be 0 to 16777216")
	case o.Duration <= 0 || o.Warmup < 0 || o.Timeout <= 0:
		return fmt.Errorf("--duration and --timeout must be more than 0s, --warmup not less")
	}
	return nil
}

// target is the topic under load.
type target struct {
	addresses []string
	client    *client.Client
	topic     string
	fresh     bool // made for this run
	keep      bool
	run       uint32
}

// prepare connects and makes the topic. The caller calls done at the end.
func prepare(ctx context.Context, o *Options) (*target, error) {
	t := &target{topic: o.Topic, keep: o.Keep, run: rand.Uint32()}
	for _, base := range o.Server {
		address, err := wire.Address(base)
		if err != nil {
			return nil, err
		}
		t.addresses = append(t.addresses, address)
	}
	var err error
	if t.client, err = client.New(client.Options{Servers: o.Server, UserAgent: "splashdam-loadtest"}); err != nil {
		return nil, err
	}
	if t.topic == "" {
		t.topic = "loadtest-" + hex.EncodeToString(binary.BigEndian.AppendUint32(nil, t.run))
	}
	in := api.TopicInput{Partitions: &o.Partitions}
	if o.Replicas > 0 {
		in.Replicas = &o.Replicas
	}
	_, err = t.client.CreateTopic(ctx, t.topic, in)
	switch {
	case err == nil:
		t.fresh = true
	case o.Topic != "" && client.IsCode(err, mqerr.AlreadyExists):
	default:
		return nil, fmt.Errorf("making topic %s: %w", t.topic, err)
	}
	return t, nil
}

// done removes what prepare made. It has a time limit of its own: the run's context may have ended.
func (t *target) done(ctx context.Context) error {
	defer t.client.Close()
	if !t.fresh || t.keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if _, err := t.client.DeleteTopic(ctx, t.topic, false); err != nil {
		return fmt.Errorf("deleting topic %s: %w", t.topic, err)
	}
	return nil
}

func (t *target) path(more string) string { return "/v1/topics/" + t.topic + more }

func (t *target) conn(ctx context.Context, o *Options, number int) *wire.Conn {
	return wire.New(ctx, t.addresses, number, o.Timeout)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// retryPause spreads the repetitions of many connections after a fault.
func retryPause(ctx context.Context, after time.Duration) {
	pause(ctx, after+50*time.Millisecond+rand.N(100*time.Millisecond))
}
