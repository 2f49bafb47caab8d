package bus

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
)

// follow keeps the connection's list of servers equal to the view's coordinators.
func (b *Bus) follow(ctx context.Context) {
	changes, cancel := b.view.Subscribe()
	defer cancel()
	var known []string
	for {
		// An empty list is not taken: leases of coordinators end while etcd restarts, and their NATS may live.
		if servers := b.servers(); len(servers) > 0 && !slices.Equal(servers, known) {
			if err := b.use(servers); err != nil {
				b.log.Warn("connecting to NATS", "servers", servers, "err", err)
			} else {
				known = servers
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
	}
}

func (b *Bus) servers() []string {
	var out []string
	for _, c := range b.view.Coordinators() {
		if c.NATS != "" {
			out = append(out, "nats://"+c.NATS)
		}
	}
	slices.Sort(out)
	return out
}

func (b *Bus) use(servers []string) error {
	b.mu.Lock()
	nc := b.nc
	b.mu.Unlock()
	if nc != nil {
		return nc.SetServerPool(servers)
	}
	nc, err := nats.Connect("", func(o *nats.Options) error {
		o.Servers = servers
		o.Name = b.name
		o.AllowReconnect, o.RetryOnFailedConnect, o.MaxReconnect = true, true, -1
		o.IgnoreDiscoveredServers = true
		o.ReconnectWait, o.ReconnectJitter = 100*time.Millisecond, 100*time.Millisecond
		o.ReconnectBufSize = -1 // no buffer: hints of the past are worth nothing
		o.Timeout = time.Second
		o.PingInterval, o.MaxPingsOut = 5*time.Second, 2
		o.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) { b.log.Debug("NATS", "err", err) }
		return nil
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.nc = nc
	for subject, s := range b.subs {
		b.attach(subject, s)
	}
	return nil
}
