package serving

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

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

// Plain returns the server of a port for probes or metrics, whose clients are not known either, and its listener.
func Plain(ctx context.Context, l net.Listener, handler http.Handler) (*http.Server, *connections.Bound) {
	bound := connections.NewBound(l, plainConnections, func() {})
	return &http.Server{
		Handler:           handler,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState:         bound.Observe,
		ErrorLog:          slog.NewLogLogger(some(ctx), slog.LevelInfo),
		ReadHeaderTimeout: plainTimeout, ReadTimeout: plainTimeout, WriteTimeout: answerTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
	}, bound
}
