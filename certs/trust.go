package certs

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quaymaster.dev/internal/kube/trust"
)

const (
	// trustEvery is the interval for verifying the served certificate until it is trusted, and reverifyEvery afterwards.
	// Changes of the configurations are verified immediately; the interval is for changes of the certificate and of time.
	trustEvery    = time.Second
	reverifyEvery = 30 * time.Second
	// remindEvery is the interval for repeating the Event while a configuration does not trust the certificate, because
	// API servers delete Events after an hour.
	remindEvery = 15 * time.Minute
)

// TrustOptions holds the dependencies of a Trust; all of them are required.
type TrustOptions struct {
	// Source provides the served certificate.
	Source Source
	// API watches the configurations.
	API dynamic.Interface
	// Configurations are those whose bundles must verify the certificate.
	Configurations Configurations
	// MustExist makes absent configurations a problem; otherwise they are ignored.
	MustExist bool
	// Recorder records Events of the configurations.
	Recorder record.EventRecorder
	// Registerer gets the metric.
	Registerer prometheus.Registerer
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
	// unready describes why the replica is not ready; empty once the certificate has been verified.
	unready problem

	mu      sync.Mutex
	objects []*observed
}

// observed is a configuration with its last state.
type observed struct {
	configuration
	// unread is the reason why the state is unknown. It is nil once the configuration has been read, even if the API
	// server does not answer later: API servers that do not answer us still have it.
	unread error
	// state is nil if the configuration does not exist.
	state *unstructured.Unstructured
	// reminded is the time of the last Event about the certificate not being trusted; zero while it is.
	reminded time.Time
}

// NewTrust returns a Trust whose Check fails until Start has verified the certificate.
func NewTrust(o TrustOptions) *Trust {
	t := &Trust{
		o: o, changed: newSignal(),
		trusted: promauto.With(o.Registerer).NewGaugeVec(prometheus.GaugeOpts{
			Name: "quaymaster_webhook_trusted",
			Help: "1 if the webhook configuration trusts the serving certificate, so that API servers can call the webhooks; " +
				"otherwise 0.",
		}, []string{"configuration"}),
	}
	for _, object := range o.Configurations.objects(o.API) {
		t.objects = append(t.objects, &observed{configuration: object, unread: errors.New("it has not been read yet")})
	}
	t.unready.set("serving certificate has not been verified yet")
	return t
}

// Check implements a readiness check for /readyz.
func (t *Trust) Check(*http.Request) error {
	if reason := t.unready.String(); reason != "" {
		return errors.New(reason)
	}
	return nil
}

// Start verifies the certificate until the context ends: at every change of a configuration, and repeatedly.
func (t *Trust) Start(ctx context.Context) error {
	var watches sync.WaitGroup
	defer watches.Wait()
	for _, object := range t.objects {
		watches.Go(func() {
			watchNamed(ctx, object.api, object.name, func(state *unstructured.Unstructured, err error) {
				t.observe(object, state, err)
			})
		})
	}
	for {
		t.verify(ctx)
		pause := reverifyEvery
		if t.unready.String() != "" {
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

// observe records the state of a configuration, or why it cannot be read. A known state stays then.
func (t *Trust) observe(object *observed, state *unstructured.Unstructured, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		object.state, object.unread = state, nil
	case object.unread != nil:
		object.unread = err
	}
	t.changed.notify()
}

// verify verifies the certificate with every configuration and reports what has changed.
func (t *Trust) verify(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	served, err := t.o.Source.GetCertificate(nil)
	var chain []*x509.Certificate
	if err == nil {
		chain, err = chainOf(served)
	}
	if err != nil {
		err = fmt.Errorf("get serving certificate: %w", err)
	}
	ready := t.unready.String() == ""
	var first error
	for _, object := range t.objects {
		problem := err
		if problem == nil {
			problem = object.verify(chain, t.o.MustExist, t.o.Clock.Now())
		}
		first = cmp.Or(first, problem)
		switch {
		case object.unread == nil && object.state == nil && !t.o.MustExist:
			t.trusted.DeleteLabelValues(object.kind) // it need not exist, and does not
		case problem == nil:
			t.trusted.WithLabelValues(object.kind).Set(1)
		default:
			t.trusted.WithLabelValues(object.kind).Set(0)
		}
		if ready {
			t.report(ctx, object, problem)
		}
	}
	logger := klog.FromContext(ctx)
	switch {
	case ready || ctx.Err() != nil:
	case first == nil:
		t.unready.set("")
		logger.Info("Webhook configurations trust the serving certificate")
	case t.unready.set(first.Error()):
		logger.Info("Not ready: the API server does not trust the serving certificate yet", "reason", first.Error())
	}
}

// verify returns an error if API servers would reject the certificate for one of the configuration's webhooks.
func (o *observed) verify(chain []*x509.Certificate, mustExist bool, now time.Time) error {
	switch {
	case o.unread != nil:
		return fmt.Errorf("read %s: %w", o, o.unread)
	case o.state == nil && mustExist:
		return fmt.Errorf("%s does not exist", o)
	case o.state == nil:
		return nil
	}
	webhooks, err := webhooksOf(o.state)
	for _, webhook := range webhooks {
		err = cmp.Or(err, trust.Webhook{Name: webhook.Name, Client: webhook.ClientConfig}.Verify(chain, now))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	return nil
}

// report logs and records an Event when a configuration no longer trusts the certificate, and when it does again.
func (t *Trust) report(ctx context.Context, object *observed, problem error) {
	logger := klog.FromContext(ctx)
	now, lost := t.o.Clock.Now(), !object.reminded.IsZero()
	kind, reason, message := corev1.EventTypeNormal, "CertificateTrusted", "API servers can call the webhooks again"
	switch {
	case problem == nil && lost:
		object.reminded = time.Time{}
		logger.Info("Webhook configuration trusts the serving certificate again", "object", object.String())
	case problem == nil || now.Sub(object.reminded) < remindEvery:
		return
	default:
		if !lost {
			logger.Error(problem, "API servers cannot call the webhooks, because they do not trust the serving certificate",
				"object", object.String())
		}
		object.reminded = now
		kind, reason, message = corev1.EventTypeWarning, "CertificateNotTrusted", "API servers cannot call the webhooks: "+problem.Error()
	}
	if object.state != nil { // otherwise it does not exist
		t.o.Recorder.Event(object.state, kind, reason, message)
	}
}
