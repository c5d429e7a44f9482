// Package serving configures the servers of the webhooks, of their probes and of their metrics, for a manager to run. It
// takes the place of controller-runtime's webhook server, whose timeouts, number of connections and client authentication
// cannot be configured as a server needs them that every pod of a cluster can reach.
package serving

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"

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

// Options configures the server of the webhooks; all fields but Clients are required.
type Options struct {
	// Handler serves the webhooks.
	Handler http.Handler
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

// New returns the server of the webhooks. A manager starts it before the caches and stops it after them.
func New(ctx context.Context, l net.Listener, o Options) *manager.Server {
	metrics := promauto.With(o.Registerer)
	evicted := metrics.NewCounter(prometheus.CounterOpts{
		Name: "quaymaster_webhook_evicted_connections_total",
		Help: "Connections to the webhooks that were closed to make room for others.",
	})
	rejected := metrics.NewCounter(prometheus.CounterOpts{
		Name: "quaymaster_webhook_rejected_clients_total",
		Help: "Connections to the webhooks without a valid client certificate.",
	})
	bound := connections.NewBound(l, o.MaxConnections, evicted.Inc)
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "quaymaster_webhook_open_connections",
		Help: "Open connections to the webhooks.",
	}, func() float64 { return float64(bound.Len()) })
	config := o.TLS.Clone()
	// API servers do not resume sessions.
	config.SessionTicketsDisabled = true
	if o.Clients != nil {
		o.Clients.configure(config, rejected.Inc)
	}
	// Requests are answered even if the server is about to stop; they have their own timeouts.
	server := newServer(context.WithoutCancel(ctx), bound, o.limited())
	// The handshake has this time, too.
	server.WriteTimeout = o.Timeout
	// What one connection can make the server hold.
	server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: 50, MaxReceiveBufferPerConnection: 1 << 17, MaxReceiveBufferPerStream: 1 << 16,
	}
	return &manager.Server{
		Name: "webhooks", Server: server, Listener: tls.NewListener(bound, config), ShutdownTimeout: new(stopTimeout),
	}
}

// newServer returns what the servers of all ports have in common.
func newServer(ctx context.Context, bound *connections.Bound, handler http.Handler) *http.Server {
	return &http.Server{
		Handler:     handler,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState:   bound.Observe,
		ErrorLog:    slog.NewLogLogger(some(ctx), slog.LevelInfo),
		// This time begins with the handshake, and API servers open connections for later. Connections with slow headers
		// are closed when others need room.
		ReadHeaderTimeout: idleTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
	}
}

// limited gives bodies a deadline. A body that takes longer to arrive leaves no time for the response. The deadline of
// http.Server begins before the first request of a connection does.
func (o Options) limited() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(o.Timeout / 2)); err != nil {
			// The connection is closed.
			return
		}
		o.Handler.ServeHTTP(w, r)
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
