package certs

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	client "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	trustEvery = time.Second
	// callTimeout bounds reading and patching a configuration.
	callTimeout = 10 * time.Second
)

// TrustOptions holds the dependencies of a Trust; all of them are required.
type TrustOptions struct {
	// Source provides the served certificate.
	Source Source
	// API reads the configurations.
	API client.AdmissionregistrationV1Interface
	// Configurations are those whose bundles must verify the certificate.
	Configurations Configurations
	// MustExist makes Trust wait for absent configurations; otherwise they are ignored.
	MustExist bool
	// Clock provides the time.
	Clock clock.Clock
}

// Trust waits, once at start, until the bundles in our webhook configurations verify the served certificate. Before
// that no API server could call this replica, so it must not receive traffic.
type Trust struct {
	o       TrustOptions
	objects []configuration
	reason  atomic.Pointer[string]
}

// NewTrust returns a Trust whose Check fails until Start has verified the certificate.
func NewTrust(o TrustOptions) *Trust {
	t := &Trust{o: o, objects: o.Configurations.objects(o.API)}
	reason := "serving certificate has not been verified yet"
	t.reason.Store(&reason)
	return t
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

// Start checks repeatedly until the certificate is trusted or the context ends.
func (t *Trust) Start(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	for {
		err := t.verify(ctx)
		if err == nil {
			t.reason.Store(nil)
			logger.Info("Webhook configurations trust the serving certificate")
			return nil
		}
		if reason := err.Error(); ctx.Err() == nil && reason != *t.reason.Load() {
			t.reason.Store(&reason)
			logger.Info("Not ready: the API server does not trust the serving certificate yet", "reason", reason)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.o.Clock.After(trustEvery):
		}
	}
}

func (t *Trust) verify(ctx context.Context) error {
	leaf, intermediates, err := current(t.o.Source)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for _, object := range t.objects {
		state, err := object.get(ctx)
		switch {
		case apierrors.IsNotFound(err) && !t.o.MustExist:
			continue
		case err != nil:
			return fmt.Errorf("get %s: %w", object.what, err)
		}
		for _, w := range state.webhooks {
			if err := t.verifies(w, leaf, intermediates); err != nil {
				return fmt.Errorf("%s: %w", object.what, err)
			}
		}
	}
	return nil
}

// verifies returns an error if the API server would not accept the certificate for the registered webhook.
func (t *Trust) verifies(w registration, leaf *x509.Certificate, intermediates *x509.CertPool) error {
	host, err := w.host()
	if err != nil {
		return err
	}
	options := x509.VerifyOptions{DNSName: host, Intermediates: intermediates, CurrentTime: t.o.Clock.Now()}
	if bundle := w.client.CABundle; len(bundle) > 0 {
		options.Roots = x509.NewCertPool()
		options.Roots.AppendCertsFromPEM(bundle)
	}
	if _, err := leaf.Verify(options); err != nil {
		return fmt.Errorf("the caBundle of webhook %q does not verify the serving certificate: %w", w.name, err)
	}
	return nil
}
