package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	client "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// trustEvery is the interval for verifying the served certificate until it is trusted, and reverifyEvery afterwards.
	// Changes of the configurations are verified immediately; the interval is for changes of the certificate and of time.
	trustEvery    = time.Second
	reverifyEvery = 30 * time.Second
	// remindEvery is the interval for repeating the Event while a configuration does not trust the certificate, because
	// API servers delete Events after an hour.
	remindEvery = 15 * time.Minute
	// callTimeout bounds reading and patching a configuration.
	callTimeout = 10 * time.Second
)

// TrustOptions holds the dependencies of a Trust; all of them are required.
type TrustOptions struct {
	// Source provides the served certificate.
	Source Source
	// API watches the configurations.
	API client.AdmissionregistrationV1Interface
	// Configurations are those whose bundles must verify the certificate.
	Configurations Configurations
	// MustExist makes absent configurations a problem; otherwise they are ignored.
	MustExist bool
	// Recorder records Events of the configurations.
	Recorder record.EventRecorder
	// Clock provides the time.
	Clock clock.Clock
}

// Trust verifies continuously that the bundles in our webhook configurations verify the served certificate. Until they
// do, no API server could call this replica, so it must not receive traffic. If they stop to do so later, Trust reports
// it by a metric, an Event and the log, but the replica stays ready: an overwritten bundle affects all replicas, and
// without any ready replica not even the unaffected webhooks could be called.
type Trust struct {
	o       TrustOptions
	trusted *prometheus.GaugeVec
	// changed reports changes of the configurations.
	changed signal
	// reason describes why the replica is not ready; nil once the certificate has been verified.
	reason atomic.Pointer[string]

	mu      sync.Mutex
	objects []*observed
}

// observed is a configuration with its last state.
type observed struct {
	configuration
	// err is the reason why the state is unknown. It is nil once the configuration has been read, even if the API server
	// does not answer later.
	err error
	// state is nil if the configuration does not exist.
	state *configurationState
	// untrusted is true if the configuration did not trust the certificate at the last verification, and reminded is the
	// time of the last Event about it.
	untrusted bool
	reminded  time.Time
}

// NewTrust returns a Trust whose Check fails until Start has verified the certificate.
func NewTrust(o TrustOptions) *Trust {
	t := &Trust{
		o: o, changed: newSignal(),
		trusted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "quaymaster_webhook_trusted",
			Help: "1 if the webhook configuration trusts the serving certificate, so that API servers can call the webhooks; " +
				"otherwise 0.",
		}, []string{"configuration"}),
	}
	for _, object := range o.Configurations.objects(o.API) {
		t.objects = append(t.objects, &observed{configuration: object, err: errors.New("it has not been read yet")})
	}
	reason := "serving certificate has not been verified yet"
	t.reason.Store(&reason)
	return t
}

// Register registers the metric.
func (t *Trust) Register(registerer prometheus.Registerer) error {
	return registerer.Register(t.trusted)
}

// NeedLeaderElection returns false because every replica serves.
func (t *Trust) NeedLeaderElection() bool { return false }

// Check implements a readiness check for /readyz.
func (t *Trust) Check(*http.Request) error {
	if reason := t.reason.Load(); reason != nil {
		return errors.New(*reason)
	}
	return nil
}

// Start verifies the certificate until the context ends.
func (t *Trust) Start(ctx context.Context) error {
	var watches sync.WaitGroup
	defer watches.Wait()
	for _, object := range t.objects {
		watches.Go(func() { t.watch(ctx, object) })
	}
	for {
		t.verify(ctx)
		pause := reverifyEvery
		if t.reason.Load() != nil {
			pause = trustEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.changed:
		case <-t.o.Clock.After(pause):
		}
	}
}

// watch keeps the state of a configuration up to date until the context ends. Each change causes a verification.
func (t *Trust) watch(ctx context.Context, object *observed) {
	update := func(change func()) {
		t.mu.Lock()
		change()
		t.mu.Unlock()
		t.changed.notify()
	}
	object.watch(ctx,
		func(state *configurationState) { update(func() { object.state, object.err = state, nil }) },
		func(err error) { update(func() { object.failed(err) }) })
}

// failed records why the configuration cannot be read. A known state stays: API servers that do not answer us still have
// it.
func (o *observed) failed(err error) {
	if o.err != nil {
		o.err = err
	}
}

// verify verifies the certificate with every configuration and reports what has changed.
func (t *Trust) verify(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	chain, err := current(t.o.Source)
	var first error
	for _, object := range t.objects {
		problem := err
		if problem == nil {
			problem = object.verify(chain, t.o.MustExist, t.o.Clock.Now())
		}
		if first == nil {
			first = problem
		}
		t.measure(object, problem)
		if t.reason.Load() == nil {
			t.report(ctx, object, problem)
		}
	}
	if t.reason.Load() != nil && ctx.Err() == nil {
		t.start(ctx, first)
	}
}

// verify returns an error if API servers would reject the certificate for one of the configuration's webhooks.
func (o *observed) verify(chain []*x509.Certificate, mustExist bool, now time.Time) error {
	switch {
	case o.err != nil:
		return fmt.Errorf("read %s: %w", o.what, o.err)
	case o.state == nil && mustExist:
		return fmt.Errorf("%s does not exist", o.what)
	case o.state == nil:
		return nil
	}
	for _, webhook := range o.state.webhooks {
		if err := webhook.Verify(chain, now); err != nil {
			return fmt.Errorf("%s: %w", o.what, err)
		}
	}
	return nil
}

// measure sets the metric. Configurations that need not exist and do not exist have none.
func (t *Trust) measure(object *observed, problem error) {
	switch {
	case object.err == nil && object.state == nil && !t.o.MustExist:
		t.trusted.DeleteLabelValues(object.kind)
	case problem == nil:
		t.trusted.WithLabelValues(object.kind).Set(1)
	default:
		t.trusted.WithLabelValues(object.kind).Set(0)
	}
}

// start reports why the replica is not ready, or that it is ready from now on.
func (t *Trust) start(ctx context.Context, problem error) {
	logger := klog.FromContext(ctx)
	if problem == nil {
		t.reason.Store(nil)
		logger.Info("Webhook configurations trust the serving certificate")
		return
	}
	if reason := problem.Error(); reason != *t.reason.Load() {
		t.reason.Store(&reason)
		logger.Info("Not ready: the API server does not trust the serving certificate yet", "reason", reason)
	}
}

// report logs and records an Event when a configuration no longer trusts the certificate, and when it does again.
func (t *Trust) report(ctx context.Context, object *observed, problem error) {
	logger := klog.FromContext(ctx)
	changed := object.untrusted != (problem != nil)
	object.untrusted = problem != nil
	switch {
	case problem == nil && !changed:
	case problem == nil:
		logger.Info("Webhook configuration trusts the serving certificate again", "object", object.what)
		t.record(object, corev1.EventTypeNormal, "CertificateTrusted", "API servers can call the webhooks again")
	case changed:
		logger.Error(problem, "API servers cannot call the webhooks, because they do not trust the serving certificate",
			"object", object.what)
		fallthrough
	case t.o.Clock.Since(object.reminded) >= remindEvery:
		object.reminded = t.o.Clock.Now()
		t.record(object, corev1.EventTypeWarning, "CertificateNotTrusted", "API servers cannot call the webhooks: "+problem.Error())
	}
}

// record records an Event of a configuration, if it exists.
func (t *Trust) record(object *observed, kind, reason, message string) {
	if object.state != nil {
		t.o.Recorder.Event(object.state.reference, kind, reason, message)
	}
}
