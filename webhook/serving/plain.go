package serving

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"quaymaster.dev/internal/connections"
)

const (
	// plainConnections is many times what kubelets and scrapers need. The more there are, the faster a crowd of strangers is
	// passed: a probe must be answered within a second.
	plainConnections = 1024
	// plainTimeout is how long a request may take to arrive, and answerTimeout how long its answer may: a profile takes
	// half a minute.
	plainTimeout  = 10 * time.Second
	answerTimeout = 40 * time.Second
)

// Plain returns the server of a port for probes or metrics, whose clients are not known either. Without a TLS
// configuration, it serves HTTP.
func Plain(ctx context.Context, name string, l net.Listener, handler http.Handler, config *tls.Config) *manager.Server {
	bound := connections.NewBound(l, plainConnections, func() {})
	server := newServer(ctx, bound, handler)
	server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout = plainTimeout, plainTimeout, answerTimeout
	if config == nil {
		return &manager.Server{Name: name, Server: server, Listener: bound}
	}
	return &manager.Server{Name: name, Server: server, Listener: tls.NewListener(bound, config)}
}
