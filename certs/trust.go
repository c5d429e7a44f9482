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
	// callTimeout bounds a look at the configurations, with its patch.
	callTimeout = 10 * time.Second
)

// TrustOptions are what a Trust needs; all of them are required.
type TrustOptions struct {
	// Source has the certificate that is served.
	Source Source
	// API reads the configurations.
	API client.AdmissionregistrationV1Interface
	// Configurations should verify the certificate.
	Configurations Configurations
	// MustExist makes an absent configuration a reason to wait; otherwise it is none of ours.
	MustExist bool
	// Clock tells the time.
	Clock clock.Clock
}

// Trust waits, once, until the bundles in our webhook configurations verify the served certificate. Before that no API server
// could call us, and traffic would go to a replica that it cannot use.
type Trust struct {
	o       TrustOptions
	objects []configuration
	reason  atomic.Pointer[string]
}

// NewTrust makes a check that fails until Start has seen that all is well.
func NewTrust(o TrustOptions) *Trust {
	t := &Trust{o: o, objects: o.Configurations.objects(o.API)}
	reason := "not checked yet"
	t.reason.Store(&reason)
	return t
}

// NeedLeaderElection is false: every replica serves.
func (t *Trust) NeedLeaderElection() bool { return false }

// Check is for /readyz.
func (t *Trust) Check(*http.Request) error {
	if reason := t.reason.Load(); reason != nil {
		return errors.New(*reason)
	}
	return nil
}

// Start looks until the certificate is trusted or the context ends.
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
			logger.Info("Not ready: the API server could not call the webhooks yet", "reason", reason)
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

// verifies tells whether the API server would accept the certificate from the webhook it registered.
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
