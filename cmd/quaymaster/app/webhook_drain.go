package app

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// drain is how the webhooks end without losing a call. API servers, and whatever balances for them, learn late that a replica ends,
// and do not ask for a connection that they have already. So it says at once that it is not ready, goes on serving for a while, and
// ends each connection with an answer rather than between two of them, where the next call may be under way.
type drain struct {
	// delay is for how long it goes on serving.
	delay time.Duration
	// asked tells that the process was asked to end.
	asked atomic.Bool
}

// serving is a context that ends the delay after ctx, which ends when the process is asked to.
func (d *drain) serving(ctx context.Context) (context.Context, context.CancelFunc) {
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		d.asked.Store(true)
		klog.FromContext(ctx).Info("Ending", "servingFor", d.delay)
		time.AfterFunc(d.delay, cancel)
	})
	return serving, cancel
}

// check is for /readyz.
func (d *drain) check(*http.Request) error {
	if d.asked.Load() {
		return errors.New("the process ends")
	}
	return nil
}

// handler ends connections with their next answer. The server cancels calls that are under way when it ends; they have limits of
// their own.
func (d *drain) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.asked.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	})
}
