package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/splashdam/splashdam/shared/config"
)

// Debug is the small HTTP server of a log node or a coordinator: /metrics, /livez, and, on a loopback
// address only, /debug/pprof/ (a profile shows more than a network should see).
type Debug struct {
	addr   string
	server *http.Server
	done   chan struct{} // closed when Serve has returned
}

// Serve binds listen ("127.0.0.1:0" picks a port) and serves until Close. An empty listen gives a Debug
// that does nothing, because the listener is optional.
func Serve(listen string, g prometheus.Gatherer, log *slog.Logger) (*Debug, error) {
	d := &Debug{done: make(chan struct{})}
	if listen == "" {
		close(d.done)
		return d, nil
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("metrics: listen on %s: %w", listen, err)
	}
	d.addr = l.Addr().String()
	d.server = &http.Server{
		Handler:           routes(g, config.IsLoopback(d.addr)),
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(d.done)
		if err := d.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the metrics listener ended", "addr", d.addr, "err", err)
		}
	}()
	return d, nil
}

func routes(g prometheus.Gatherer, loopback bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 30 * time.Second}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	if loopback {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// Addr is where it listens ("127.0.0.1:9191"), empty when it does not.
func (d *Debug) Addr() string { return d.addr }

// closeTimeout bounds how long Close waits for requests that are being answered (a profile takes longer).
const closeTimeout = time.Second

// Close waits a second for requests that are being answered, then cuts them off.
func (d *Debug) Close() error {
	if d.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := d.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = d.server.Close()
	}
	<-d.done
	return err
}
