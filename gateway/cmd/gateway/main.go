// Command gateway runs one gateway: the HTTP API of a cluster.
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

	"github.com/splashdam/splashdam/gateway"
	"github.com/splashdam/splashdam/shared/config"
	"github.com/splashdam/splashdam/shared/metrics"
)

type flags struct {
	gateway.Config `embed:""`
	LogLevel       slog.Level `name:"log-level" help:"debug, info, warn or error." default:"info"`
}

func main() {
	if err := run(); err != nil && !errors.Is(err, config.ErrHelp) {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	var f flags
	if err := config.Parse(&f, "gateway", "Serves the HTTP API of a Splashdam cluster.", os.Args[1:], os.Stdout); err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: f.LogLevel}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g, err := gateway.Start(ctx, f.Config, log, metrics.NewRegistry())
	if err != nil {
		return err
	}
	log.Info("the gateway is ready", "url", g.URL())
	<-ctx.Done()
	stop() // a second signal ends the process at once
	end, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	return g.Stop(end)
}
