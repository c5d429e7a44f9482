package cloud

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
	"k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/leaderelection"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/component-base/metrics/prometheus/slis"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/health"
)

const (
	// overdue is how long after its expiry a lease may still be ours without a failure of the liveness probe.
	overdue = 20 * time.Second
	// headerTimeout limits how long a probe may take to send its request.
	headerTimeout = 10 * time.Second
)

// front serves the probes from the first moment on and, once the configuration is complete, the rest. The process is
// alive while it waits for the API server, but not ready.
type front struct {
	live, ready *health.Handler
	election    *leaderelection.HealthzAdaptor
	// waiting is the reason why the process is not ready; nil if it is.
	waiting atomic.Pointer[string]
}

func newFront(logger logr.Logger) *front {
	f := &front{election: leaderelection.NewLeaderHealthzAdaptor(overdue)}
	f.wait("the start has not been checked yet")
	f.live = health.NewHandler("livez", logger, health.Ping(), health.Check{Name: f.election.Name(), Check: f.election.Check})
	f.ready = health.NewHandler("readyz", logger, health.Check{Name: "start", Check: func(*http.Request) error {
		if reason := f.waiting.Load(); reason != nil {
			return errors.New(*reason)
		}
		return nil
	}})
	return f
}

// wait sets the reason why the process is not ready.
func (f *front) wait(reason string) { f.waiting.Store(&reason) }

// listen starts to listen. Later uses of the options use the same listener.
func (m *Manager) listen() (*server.SecureServingInfo, error) {
	s := m.Options.SecureServing
	if err := s.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("create a certificate for health and metrics: %w", err)
	}
	var info *server.SecureServingInfo
	if err := s.SecureServingOptions.ApplyTo(&info); err != nil {
		return nil, fmt.Errorf("listen for health and metrics: %w", err)
	}
	return info, nil
}

// serveProbes serves nothing but the probes, which needs no API server, until the returned function is called. The
// listener stays open.
func (f *front) serveProbes(ctx context.Context, info *server.SecureServingInfo) (func(), error) {
	if info == nil {
		return func() {}, nil
	}
	pair, err := tls.X509KeyPair(info.Cert.CurrentCertKeyContent())
	if err != nil {
		return nil, fmt.Errorf("read the certificate for health and metrics: %w", err)
	}
	mux := http.NewServeMux()
	f.install(mux.Handle)
	mux.Handle("/healthz", f.live)
	s := &http.Server{
		Handler: mux, ReadHeaderTimeout: headerTimeout,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
		ErrorLog:  slog.NewLogLogger(logr.ToSlogHandler(klog.FromContext(ctx).V(5)), slog.LevelInfo),
	}
	on := lent{info.Listener}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := s.ServeTLS(on, "", ""); !errors.Is(err, http.ErrServerClosed) {
			klog.FromContext(ctx).Error(err, "Could not serve the probes")
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = s.Shutdown(ctx) // a probe that is not answered in time is repeated
		<-ended
		_ = on.accept(time.Time{})
	}, nil
}

// install adds the probes that are Kubernetes' own names for health; the app adds /healthz, their predecessor.
func (f *front) install(handle func(path string, handler http.Handler)) {
	handle("/livez", f.live)
	handle("/readyz", f.ready)
}

// serve serves the probes, metrics, configuration and profiles until the context ends. The returned channel is closed
// when all requests have been answered.
func (f *front) serve(ctx context.Context, completed *ccmconfig.CompletedConfig) (<-chan struct{}, error) {
	if completed.SecureServing == nil {
		none := make(chan struct{})
		close(none)
		return none, nil
	}
	mux := genericcontrollermanager.NewBaseHandler(&completed.ComponentConfig.Generic.Debugging, f.live)
	f.install(mux.Handle)
	slis.SLIMetricsWithReset{}.Install(mux)
	handler := genericcontrollermanager.BuildHandlerChain(mux, &completed.Authorization, &completed.Authentication)
	stopped, _, err := completed.SecureServing.Serve(handler, time.Second, ctx.Done())
	if err != nil {
		return nil, fmt.Errorf("serve health and metrics: %w", err)
	}
	return stopped, nil
}

// lent is a listener of which a server only ends its use, so that no probe between two servers is refused.
type lent struct{ net.Listener }

// Close makes Accept return, but continues to listen.
func (l lent) Close() error { return l.accept(time.Unix(1, 0)) }

// accept sets the time until which connections are accepted; zero for no end.
func (l lent) accept(until time.Time) error {
	with, ok := l.Listener.(interface{ SetDeadline(time.Time) error })
	if !ok {
		return l.Listener.Close()
	}
	return with.SetDeadline(until)
}
