package app

import (
	"net/http"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// metricsHeaderTimeout bounds how long a scrape may take to say what it wants.
const metricsHeaderTimeout = 10 * time.Second

// addMetrics serves the registry that the controllers serve, too. The manager's own endpoint would serve that of
// controller-runtime, which has nothing of client-go: its metrics go to one registry, and the program's other role brings in
// the one that comes first. Both together would say everything about Go and the process twice.
func (o *webhookOptions) addMetrics(mgr ctrl.Manager) error {
	if o.metricsAddress == off {
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", legacyregistry.Handler())
	return mgr.Add(&manager.Server{
		Name:   "metrics",
		Server: &http.Server{Addr: o.metricsAddress, Handler: mux, ReadHeaderTimeout: metricsHeaderTimeout},
	})
}
