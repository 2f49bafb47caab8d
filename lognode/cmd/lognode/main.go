// Command lognode runs one log node. Every flag is also an environment variable: --lease-ttl is
// SPLASHDAM_LEASE_TTL.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/splashdam/splashdam/lognode"
	"github.com/splashdam/splashdam/shared/config"
	"github.com/splashdam/splashdam/shared/heap"
	"github.com/splashdam/splashdam/shared/metrics"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	cfg := struct {
		lognode.Config
		Debug    string     `help:"Address for /metrics, /livez and, on loopback, /debug/pprof; empty for none."`
		LogLevel slog.Level `help:"debug, info, warn or error." default:"info"`
	}{Config: lognode.DefaultConfig()}
	err := config.Parse(&cfg, "lognode", "A Splashdam log node: replicated segments and deliveries.", os.Args[1:], os.Stdout)
	if errors.Is(err, config.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: cfg.LogLevel}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	defer heap.Tend()()
	reg := metrics.NewRegistry()
	debug, err := metrics.Serve(cfg.Debug, reg, log)
	if err != nil {
		return err
	}
	defer debug.Close()
	node, err := lognode.Start(ctx, cfg.Config, log, reg)
	if err != nil {
		return err
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-node.Failed():
	}
	stop() // a second signal ends the process at once
	end, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return errors.Join(failure, node.Stop(end))
}
