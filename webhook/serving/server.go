// Package serving is the HTTPS server of the webhooks. It takes the place of controller-runtime's, whose timeouts,
// number of connections and client authentication cannot be configured as a server needs them that every pod of a
// cluster can reach.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"

	"quaymaster.dev/internal/connections"
)

const (
	// idleTimeout is longer than the 90 s after which API servers close their idle connections. A server that closes
	// first may do so while the next request is on its way, and that request fails.
	idleTimeout = 2 * time.Minute
	// maxHeaderBytes is many times what API servers send.
	maxHeaderBytes = 8 << 10
	// stopTimeout bounds how long requests in flight may delay the end of the process.
	stopTimeout = time.Minute
)

// Options configures a Server; all fields but Clients are required.
type Options struct {
	// Address is the host and port to listen on.
	Address string
	// TLS provides the certificate.
	TLS *tls.Config
	// Clients authenticates the callers; nil admits every caller.
	Clients *Clients
	// Timeout is how long API servers wait for a response.
	Timeout time.Duration
	// MaxConnections is the maximum number of connections that are served at a time.
	MaxConnections int
	// Registerer receives the metrics of connections.
	Registerer prometheus.Registerer
}

// Server serves the webhooks. It implements the interface of controller-runtime's server, so that the manager starts it
// before the caches and stops it after them.
type Server struct {
	o       Options
	mux     *http.ServeMux
	open    atomic.Pointer[connections.Bound]
	evicted prometheus.Counter
	// rejected counts handshakes without a valid client certificate.
	rejected prometheus.Counter
	started  atomic.Bool
}

var _ ctrlwebhook.Server = (*Server)(nil)

// New returns a Server that Start runs.
func New(o Options) (*Server, error) {
	s := &Server{o: o, mux: http.NewServeMux()}
	s.evicted = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quaymaster_webhook_evicted_connections_total",
		Help: "Connections to the webhooks that were closed to make room for others.",
	})
	s.rejected = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "quaymaster_webhook_rejected_clients_total",
		Help: "Connections to the webhooks without a valid client certificate.",
	})
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quaymaster_webhook_open_connections",
		Help: "Open connections to the webhooks.",
	}, func() float64 {
		if bound := s.open.Load(); bound != nil {
			return float64(bound.Len())
		}
		return 0
	})
	for _, c := range []prometheus.Collector{s.rejected, s.evicted, open} {
		if err := o.Registerer.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return s, nil
}

// Register adds a webhook. Unlike controller-runtime, it adds no metrics to those of the handler.
func (s *Server) Register(path string, hook http.Handler) { s.mux.Handle(path, hook) }

// WebhookMux returns the paths that were registered.
func (s *Server) WebhookMux() *http.ServeMux { return s.mux }

// NeedLeaderElection returns false because every replica serves.
func (s *Server) NeedLeaderElection() bool { return false }

// StartedChecker returns a check that fails until the server listens. It opens no connection: a client certificate may
// be required, and a handshake every few seconds would be most of what an idle process does.
func (s *Server) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("webhook server has not been started yet")
		}
		return nil
	}
}

// Start serves until the context ends and the requests in flight have been answered.
func (s *Server) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.o.Address)
	if err != nil {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	return s.serve(ctx, listener)
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	config := s.o.TLS.Clone()
	// API servers do not resume sessions.
	config.SessionTicketsDisabled = true
	if s.o.Clients != nil {
		s.o.Clients.configure(config, s.rejected.Inc)
	}
	// Requests are answered even if the server is about to stop; they have their own timeouts.
	base := context.WithoutCancel(ctx)
	bound := connections.NewBound(listener, s.o.MaxConnections, s.evicted.Inc)
	s.open.Store(bound)
	server := &http.Server{
		Handler:     s.bounded(s.mux),
		BaseContext: func(net.Listener) context.Context { return base },
		ConnState:   bound.Observe,
		ErrorLog:    slog.NewLogLogger(some(ctx), slog.LevelInfo),
		// This time begins with the handshake, and API servers open connections for later. Connections with slow headers
		// are closed when others need room.
		ReadHeaderTimeout: idleTimeout,
		// The handshake has this time, too.
		WriteTimeout:   s.o.Timeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		// What one connection can make the server hold.
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 50, MaxReceiveBufferPerConnection: 1 << 17, MaxReceiveBufferPerStream: 1 << 16,
		},
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(base, stopTimeout)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	})
	defer stop()
	s.started.Store(true)
	err := server.Serve(tls.NewListener(bound, config))
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("stop serving webhooks: %w", err)
	}
	return nil
}

// bounded gives bodies a deadline. A body that takes longer to arrive leaves no time for the response. The deadline of
// http.Server begins before the first request of a connection does.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.Timeout / 2)); err != nil {
			// The connection is closed.
			return
		}
		next.ServeHTTP(w, r)
	})
}

// some logs some errors of connections. Anybody can cause them.
func some(ctx context.Context) slog.Handler {
	return sampled{logr.ToSlogHandler(klog.FromContext(ctx)), &rate.Sometimes{First: 10, Interval: 10 * time.Second}}
}

// sampled drops most of the records of a burst.
type sampled struct {
	slog.Handler
	sometimes *rate.Sometimes
}

// Handle implements slog.Handler.
func (s sampled) Handle(ctx context.Context, record slog.Record) (err error) {
	s.sometimes.Do(func() { err = s.Handler.Handle(ctx, record) })
	return err
}
