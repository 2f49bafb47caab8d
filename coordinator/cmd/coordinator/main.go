// Command coordinator runs one coordinator: etcd, NATS and, while it leads, the controller.
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

	"github.com/splashdam/splashdam/coordinator"
	"github.com/splashdam/splashdam/shared/config"
	"github.com/splashdam/splashdam/shared/metrics"
)

type flags struct {
	coordinator.Config `embed:""`
	Debug              string     `name:"debug" help:"Address for metrics and profiles, empty for none." default:""`
	LogLevel           slog.Level `name:"log-level" help:"debug, info, warn or error." default:"info"`
}

func main() {
	if err := run(); err != nil && !errors.Is(err, config.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	var f flags
	if err := config.Parse(&f, "coordinator", "Keeps the metadata of a Splashdam cluster.", os.Args[1:], os.Stdout); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: f.LogLevel}))
	reg := metrics.NewRegistry()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	debug, err := metrics.Serve(f.Debug, reg, log)
	if err != nil {
		return err
	}
	c, err := coordinator.Start(ctx, f.Config, log, reg)
	if err == nil {
		log.Info("the coordinator is ready", "etcd", c.EtcdClient())
		select {
		case <-ctx.Done():
		case err = <-c.Failed():
		}
		stop() // a second signal ends the process at once
		end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err = errors.Join(err, c.Stop(end))
	}
	return errors.Join(err, debug.Close())
}
