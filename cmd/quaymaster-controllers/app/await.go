package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
)

const (
	// firstCallTimeout limits each of the first calls of the API server and of the cloud.
	firstCallTimeout = 10 * time.Second
	// remindEvery is the interval of messages about what the process waits for, while the reason stays the same.
	remindEvery = 30 * time.Second
)

// patience returns the pauses between attempts. Exiting instead would let the kubelet delay the restart by minutes,
// and without the reason.
func patience() wait.DelayFunc {
	return wait.Backoff{Duration: time.Second, Factor: 1.5, Jitter: 0.1, Steps: 10, Cap: 10 * time.Second}.DelayFunc()
}

// await calls check until it succeeds, the context ends, or the failure is final. It reports the reason of each failure
// to waiting, and logs it at once if it is new and repeatedly if it stays.
func await(ctx context.Context, what string, waiting func(reason string), check func(context.Context) error) error {
	start, logged, reason := time.Now(), time.Time{}, ""
	return patience().Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		attempt, cancel := context.WithTimeout(ctx, firstCallTimeout)
		defer cancel()
		err := check(attempt)
		if final, ok := errors.AsType[finalError](err); ok {
			return false, final.error
		}
		logger := klog.FromContext(ctx)
		switch {
		case err == nil && reason != "":
			logger.Info("No longer waiting for "+what, "waited", time.Since(start).Round(time.Millisecond))
		case err != nil && ctx.Err() == nil && (err.Error() != reason || time.Since(logged) >= remindEvery):
			reason, logged = err.Error(), time.Now()
			logger.Info("Waiting for "+what, "reason", reason, "waited", time.Since(start).Round(time.Second))
		}
		if err != nil {
			waiting(fmt.Sprintf("waiting for %s: %s", what, err))
		}
		return err == nil, nil
	})
}

// finalError is a failure that waiting does not change.
type finalError struct{ error }

// awaitCluster waits for an API server that answers and grants permissions that every controller needs, and returns the
// cluster's UID. Answers about credentials are no reason to exit: an API server that starts rejects what it accepts
// moments later.
func awaitCluster(ctx context.Context, cluster *ownership.Cluster, waiting func(string)) (string, error) {
	var uid string
	err := await(ctx, "the API server", waiting, func(ctx context.Context) (err error) {
		uid, err = cluster.UID(ctx)
		switch {
		case apierrors.IsUnauthorized(err):
			return fmt.Errorf("it rejects the credentials: %w", err)
		case apierrors.IsForbidden(err):
			return fmt.Errorf("the controllers' ServiceAccount lacks permissions: %w; install the chart's roles and bindings",
				err)
		}
		return err
	})
	return uid, err
}

// awaitCloud waits while the cloud rejects the token, which may be replaced, and checks its capabilities. A cloud that
// does not answer is only logged: Nodes are added and removed without it, and the controllers retry what fails.
func (r *controllers) awaitCloud(ctx context.Context, waiting func(string)) error {
	return await(ctx, "the cloud", waiting, func(ctx context.Context) error {
		meta, err := r.cloud.Identity(ctx)
		switch {
		case cloudapi.HasCode(err, cloudv1.CodeUnauthenticated):
			if r.config.TokenFile == "" {
				return fmt.Errorf("clientCertFile %s: the cloud at %s rejects the certificate; write a valid one to the file",
					r.config.ClientCertFile, r.config.Endpoint)
			}
			return fmt.Errorf("tokenFile %s: the cloud at %s rejects the token; write a valid token to the file",
				r.config.TokenFile, r.config.Endpoint)
		case err != nil:
			klog.FromContext(ctx).Error(err, "The cloud does not answer; continuing without it",
				"endpoint", r.config.Endpoint)
		case !slices.Contains(meta.Capabilities, cloudv1.CapabilityNodeGroups):
			return finalError{fmt.Errorf("the cloud at %s does not support node groups, which load balancers require",
				r.config.Endpoint)}
		}
		return nil
	})
}
