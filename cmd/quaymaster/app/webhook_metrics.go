package app

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"

	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/restclient" // registers the metrics of client-go
	ctrl "sigs.k8s.io/controller-runtime"

	"quaymaster.dev/certs"
	"quaymaster.dev/webhook/serving"
)

// addMetrics serves the same registry as the controllers role, so that both have the same metrics of client-go. The
// manager's own endpoint would serve controller-runtime's registry, which has fewer. Serving both registries would
// duplicate the Go and process metrics.
func (o *webhookOptions) addMetrics(
	ctx context.Context, mgr ctrl.Manager, l net.Listener, source certs.Source, api kubernetes.Interface,
) error {
	if l == nil {
		return nil
	}
	handler := o.metricsHandler()
	if !o.metricsSecure {
		return mgr.Add(serving.Plain(ctx, "metrics", l, handler, nil))
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	certs.ServerOptions(source, false)(config)
	return mgr.Add(serving.Plain(ctx, "metrics", l, newAccess(api, handler), config))
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
