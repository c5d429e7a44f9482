package contact

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

const (
	// period is how often the state is compared with the record.
	period = 2 * time.Second
	// messagePeriod is how often a record is written whose message alone has changed, as each error may differ.
	messagePeriod = time.Minute
	// retryPeriod is how long to wait after a failed write.
	retryPeriod = 30 * time.Second
	// callTimeout bounds a write.
	callTimeout = 10 * time.Second
	// longestMessage bounds the message, in bytes.
	longestMessage = 1024
	// fieldManager begins the name of the owner of an entry in managedFields. The lease follows, so that leaders of
	// different leases do not remove each other's entries.
	fieldManager = "quaymaster-controllers-"
)

// Cloud is what the leader knows of the cloud.
type Cloud interface {
	// Tried reports whether the cloud has been asked.
	Tried() bool
	// Current reports whether the cloud answers.
	Current() bool
	// Err returns the last error, or nil.
	Err() error
}

// Options holds the dependencies of a Reporter.
type Options struct {
	Client kubernetes.Interface
	// Namespace and Lease are those of the controllers' lease.
	Namespace, Lease string
	// Epoch returns the number of transitions of the lease; false without a lease.
	Epoch func() (int64, bool)
	// Endpoint is the address of the cloud's API.
	Endpoint string
	Cloud    Cloud
	// Clock defaults to the real clock.
	Clock clock.WithTicker
}

// Reporter keeps the record up to date.
type Reporter struct {
	Options

	// stored is the record as written last, at written; nil before the first write.
	stored  *Record
	written time.Time
}

// NewReporter returns a Reporter. It does no I/O.
func NewReporter(o Options) *Reporter {
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	return &Reporter{Options: o}
}

// Run keeps the record up to date until ctx ends.
func (r *Reporter) Run(ctx context.Context) {
	ticker := r.Clock.NewTicker(period)
	defer ticker.Stop()
	var retry time.Time
	for {
		now := r.Clock.Now()
		if next := r.next(now); next != nil && !now.Before(retry) {
			if err := r.write(ctx, next); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Could not record whether the cloud answers, will retry")
				retry = now.Add(retryPeriod)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
	}
}

// next returns the record to write, or nil if the stored one is still right.
func (r *Reporter) next(now time.Time) *Record {
	if !r.Cloud.Tried() {
		return nil
	}
	next := &Record{Endpoint: r.Endpoint, Since: now.UTC().Truncate(time.Second)}
	if epoch, ok := r.Epoch(); ok {
		next.Epoch = &epoch
	}
	next.State, next.Message = stateOf(r.Cloud)
	if r.stored == nil || r.stored.State != next.State {
		return next
	}
	next.Since = r.stored.Since
	if r.stored.Message == next.Message || now.Sub(r.written) < messagePeriod {
		return nil
	}
	return next
}

func stateOf(cloud Cloud) (state State, message string) {
	err := cloud.Err()
	switch {
	case err == nil && cloud.Current():
		return Answers, ""
	case err == nil:
		return Silent, "the last request has not been answered"
	}
	message = err.Error()
	if unsent, ok := errors.AsType[*url.Error](err); ok {
		message = unsent.Err.Error() // without the long URL
	}
	// The summary is the same for every attempt.
	if answer, ok := errors.AsType[*cloudapi.Error](err); ok {
		message = answer.Summary()
	}
	if len(message) > longestMessage {
		message = message[:longestMessage]
	}
	switch {
	case errors.Is(err, cloudapi.ErrUnidentified):
		return Unidentified, message
	case cloudapi.HasCode(err, cloudv1.CodeUnauthenticated):
		return RejectsToken, message
	}
	return Silent, message
}

func (r *Reporter) write(ctx context.Context, next *Record) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	raw, err := json.Marshal(next)
	if err != nil {
		return err
	}
	entry := applycorev1.ConfigMap(ConfigMap, r.Namespace).
		WithLabels(map[string]string{"app.kubernetes.io/managed-by": "quaymaster-controllers"}).
		WithData(map[string]string{r.Lease: string(raw)})
	_, err = r.Client.CoreV1().ConfigMaps(r.Namespace).Apply(ctx, entry,
		metav1.ApplyOptions{FieldManager: fieldManager + r.Lease, Force: true})
	if err != nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", r.Namespace, ConfigMap, err)
	}
	r.stored, r.written = next, r.Clock.Now()
	return nil
}
