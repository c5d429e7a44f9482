package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	client "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// settledEvery is how soon a bundle that somebody overwrote is mended, urgentEvery how soon it is tried again while
	// something is missing.
	settledEvery = 5 * time.Second
	urgentEvery  = time.Second
	// propagation is how long API servers may take to see a new bundle.
	propagation = 10 * time.Second
)

// SelfSignedOptions are what a SelfSigned needs; all of them are required.
type SelfSignedOptions struct {
	// Hosts are the DNS names and IP addresses that API servers call.
	Hosts []string
	// Validity is how long an authority and its certificate last. They are replaced after two thirds of it.
	Validity time.Duration
	// API reads and patches the configurations.
	API client.AdmissionregistrationV1Interface
	// Configurations get the authority as their bundle.
	Configurations Configurations
	// Clock tells the time.
	Clock clock.Clock
}

// SelfSigned issues its own certificates and puts their authorities into the bundles of our webhook configurations. Everything
// is in memory: a restart begins with a new authority. A new certificate is served only when API servers trust its authority,
// and the authority of the old one stays in the bundles until it expires.
type SelfSigned struct {
	o       SelfSignedOptions
	objects []configuration
	serving atomic.Pointer[issued]
	// next waits for its authority to be known to API servers; nextKnown is when it was written, zero before.
	next      *issued
	nextKnown time.Time
	// problem is the last one logged; the same one is not logged again.
	problem string
}

var _ Source = (*SelfSigned)(nil)

// NewSelfSigned issues the first certificate.
func NewSelfSigned(o SelfSignedOptions) (*SelfSigned, error) {
	first, err := issue(o.Clock.Now(), o.Validity, o.Hosts)
	if err != nil {
		return nil, err
	}
	s := &SelfSigned{o: o, objects: o.Configurations.objects(o.API)}
	s.serving.Store(first)
	return s, nil
}

// GetCertificate is the certificate to serve.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.serving.Load().serving, nil
}

// NeedLeaderElection is false: every replica serves with its own certificate.
func (s *SelfSigned) NeedLeaderElection() bool { return false }

// Start patches and rotates until the context ends. Trouble is logged and tried again.
func (s *SelfSigned) Start(ctx context.Context) error {
	for {
		s.step(ctx)
		pause := settledEvery
		if s.problem != "" || s.next != nil {
			pause = urgentEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.o.Clock.After(pause):
		}
	}
}

// step does what is due: a new certificate, patches, the change to the new certificate.
func (s *SelfSigned) step(ctx context.Context) {
	err := s.rotate()
	if err == nil {
		err = s.publish(ctx)
	}
	logger := klog.FromContext(ctx)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && err.Error() != s.problem:
		s.problem = err.Error()
		logger.Error(err, "Self-signed certificates are not in place; trying again")
	case err == nil && s.problem != "":
		s.problem = ""
		logger.Info("Self-signed certificates are in place")
	}
	now := s.o.Clock.Now()
	if err != nil || s.next == nil {
		return
	}
	if s.nextKnown.IsZero() {
		s.nextKnown = now
	}
	if now.Sub(s.nextKnown) >= min(propagation, s.o.Validity/10) {
		s.serving.Store(s.next)
		logger.Info("Serving a new self-signed certificate", "expires", s.next.authority.NotAfter)
		s.next, s.nextKnown = nil, time.Time{}
	}
}

func (s *SelfSigned) rotate() error {
	now := s.o.Clock.Now()
	due := s.serving.Load().authority.NotAfter.Add(-s.o.Validity / 3)
	if s.next != nil || now.Before(due) {
		return nil
	}
	next, err := issue(now, s.o.Validity, s.o.Hosts)
	if err != nil {
		return err
	}
	s.next = next
	return nil
}

// publish makes sure that our authorities are in the bundles of every configuration.
func (s *SelfSigned) publish(ctx context.Context) error {
	ours := []*x509.Certificate{s.serving.Load().authority}
	if s.next != nil {
		ours = append(ours, s.next.authority)
	}
	for _, object := range s.objects {
		if err := s.publishIn(ctx, object, ours); err != nil {
			return err
		}
	}
	return nil
}

func (s *SelfSigned) publishIn(ctx context.Context, object configuration, ours []*x509.Certificate) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	state, err := object.get(ctx)
	if err != nil {
		return fmt.Errorf("get %s: %w", object.what, err)
	}
	bundles := map[string][]byte{}
	for _, w := range state.webhooks {
		if merged := mergeBundle(w.client.CABundle, ours, s.o.Clock.Now()); !bytes.Equal(merged, w.client.CABundle) {
			bundles[w.name] = merged
		}
	}
	if len(bundles) == 0 {
		return nil
	}
	body, err := bundlePatch(state.resourceVersion, bundles)
	if err != nil {
		return fmt.Errorf("patch %s: %w", object.what, err)
	}
	if err := object.patch(ctx, body); err != nil {
		if apierrors.IsConflict(err) {
			// Another replica was faster; the next look is at what it wrote.
			return s.publishIn(ctx, object, ours)
		}
		return fmt.Errorf("patch %s: %w", object.what, err)
	}
	klog.FromContext(ctx).Info("Put the certificate authority into the webhook configuration", "object", object.what)
	return nil
}
