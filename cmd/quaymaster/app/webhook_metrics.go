package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // registers the metrics of client-go
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"quaymaster.dev/certs"
)

// headerTimeout limits how long a scrape or a probe may take to send its request headers.
const headerTimeout = 10 * time.Second

// addMetrics serves the same registry as the controllers role, so that both have the same metrics of client-go. The
// manager's own endpoint would serve controller-runtime's registry, which has fewer. Serving both registries would
// duplicate the Go and process metrics.
func (o *webhookOptions) addMetrics(
	ctx context.Context, mgr ctrl.Manager, source certs.Source, api kubernetes.Interface,
) error {
	if o.metricsAddress == off {
		return nil
	}
	server := &manager.Server{
		Name: "metrics",
		Server: &http.Server{
			Addr: o.metricsAddress, Handler: o.metricsHandler(), ReadHeaderTimeout: headerTimeout,
			BaseContext: func(net.Listener) context.Context { return ctx },
		},
	}
	if o.metricsSecure {
		plain, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.metricsAddress)
		if err != nil {
			return fmt.Errorf("--metrics-bind-address: %w", err)
		}
		config := &tls.Config{MinVersion: tls.VersionTLS12}
		certs.ServerOptions(source, false)(config)
		server.Listener = tls.NewListener(plain, config)
		server.Server.Handler = newAccess(api, server.Server.Handler)
	}
	return mgr.Add(server)
}

func (o *webhookOptions) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", legacyregistry.Handler())
	if o.profiling {
		addProfiling(mux)
	}
	return mux
}

// addProfiling serves the same paths as the controllers role.
func addProfiling(mux *http.ServeMux) {
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
}

// isLoopback reports whether only processes on the same host can connect to a listen address. A host name could resolve
// to any address, so it does not count.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
