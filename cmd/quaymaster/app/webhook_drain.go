package app

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// lingering is how long a prompt runnable may take to end.
const lingering = time.Second

// drain shuts the webhooks down without failing a request. API servers and the proxies in front of them learn only
// after a while that a replica terminates, and keep using open connections. The replica therefore becomes unready
// immediately, continues to serve for a while, and closes each connection with a response rather than between two
// requests, when the next request may already be in flight.
type drain struct {
	// delay is how long serving continues after the termination signal.
	delay time.Duration
	// terminating is true after the termination signal.
	terminating atomic.Bool
}

// serving returns a context that ends the delay after ctx, which ends with the termination signal.
func (d *drain) serving(ctx context.Context) (context.Context, context.CancelFunc) {
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		d.terminating.Store(true)
		klog.FromContext(ctx).Info("Shutting down", "servingFor", d.delay)
		time.AfterFunc(d.delay, cancel)
	})
	return serving, cancel
}

// check fails during shutdown; /readyz runs it.
func (d *drain) check(*http.Request) error {
	if d.terminating.Load() {
		return errors.New("the process is shutting down")
	}
	return nil
}

// handler closes connections with their next response during shutdown.
func (d *drain) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.terminating.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// prompt is not waited for longer than a second at the end of the process. It must only read, or write what may be
// written at any time. After an API server has refused a connection, watches of client-go sleep for up to half a minute,
// also past the end of their context, and the pod would be killed.
type prompt struct{ manager.Runnable }

var _ manager.LeaderElectionRunnable = prompt{}

// Start runs the runnable.
func (p prompt) Start(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- p.Runnable.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(lingering):
		return nil
	}
}

// NeedLeaderElection returns false because every replica serves.
func (prompt) NeedLeaderElection() bool { return false }
