package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync/atomic"
	"time"

	client "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// settledEvery is how soon a bundle that somebody overwrote is mended and what another replica did is seen, urgentEvery how
	// soon it is tried again while something is missing.
	settledEvery = 5 * time.Second
	urgentEvery  = time.Second
	// propagation is how long API servers may take to see a new bundle.
	propagation = 10 * time.Second
)

// SelfSignedOptions are what a SelfSigned needs; all of them are required but Secrets and Secret.
type SelfSignedOptions struct {
	// Hosts are the DNS names and IP addresses that API servers call.
	Hosts []string
	// Validity is how long a certificate lasts; the authority lasts ten times longer. Both are replaced after two thirds.
	Validity time.Duration
	// API reads and patches the configurations.
	API client.AdmissionregistrationV1Interface
	// Configurations get the authority as their bundle.
	Configurations Configurations
	// Secrets reads and updates the Secret, in its namespace.
	Secrets typedcorev1.SecretInterface
	// Secret is the name of the Secret that replicas share and that outlives them. Without one everything is in memory: every
	// replica has an authority of its own, and a restart begins with a new one.
	Secret string
	// Clock tells the time.
	Clock clock.Clock
}

// SelfSigned issues its own certificates and puts their authorities into the bundles of our webhook configurations. A new
// certificate is served only when API servers trust its authority, and the authority of the old one stays in the bundles until
// it expires.
type SelfSigned struct {
	o        SelfSignedOptions
	rotation rotation
	store    store
	objects  []configuration
	serving  atomic.Pointer[tls.Certificate]
	// reason is why nothing is served yet.
	reason atomic.Pointer[string]
	// state is the last one that was in the store.
	state *state
	// signer is the authority of what is served.
	signer *x509.Certificate
	// published is since when authorities, by their DER, are in every bundle.
	published map[string]time.Time
	// problem is the last one logged; the same one is not logged again.
	problem string
}

var _ Source = (*SelfSigned)(nil)

// NewSelfSigned issues the first certificate if it is to be kept in memory.
func NewSelfSigned(o SelfSignedOptions) (*SelfSigned, error) {
	s := &SelfSigned{
		o: o, rotation: rotation{hosts: o.Hosts, validity: o.Validity}, objects: o.Configurations.objects(o.API), published: map[string]time.Time{},
	}
	reason := "the Secret for certificates has not been read yet"
	s.reason.Store(&reason)
	if o.Secret != "" {
		s.store = &secret{api: o.Secrets, name: o.Secret, clock: o.Clock}
		return s, nil
	}
	first, err := s.rotation.next(nil, o.Clock.Now(), s.known)
	if err != nil {
		return nil, err
	}
	s.store = &memory{kept: first}
	s.state = first
	s.serve(first)
	return s, nil
}

// GetCertificate is the certificate to serve.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := s.serving.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New(*s.reason.Load())
}

// NeedLeaderElection is false: every replica serves.
func (s *SelfSigned) NeedLeaderElection() bool { return false }

// Start patches and rotates until the context ends. Trouble is logged and tried again.
func (s *SelfSigned) Start(ctx context.Context) error {
	for {
		s.step(ctx)
		pause := settledEvery
		if s.problem != "" || !s.settled() {
			pause = urgentEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.o.Clock.After(pause):
		}
	}
}

// settled tells whether what is served is what should be, and signed by the authority that signs from now on.
func (s *SelfSigned) settled() bool {
	return s.state != nil && s.serving.Load() == s.state.serving && s.signer.Equal(s.state.authority.cert)
}

// step does what is due: a new certificate, patches, the change to the new certificate.
func (s *SelfSigned) step(ctx context.Context) {
	err := s.agree(ctx)
	if unpublished := s.publish(ctx); err == nil {
		err = unpublished
	}
	s.change(ctx)
	logger := klog.FromContext(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil && err.Error() != s.problem:
		reason := err.Error()
		s.reason.Store(&reason)
		s.problem = reason
		logger.Error(err, "Self-signed certificates are not in place; trying again")
	case err == nil && s.problem != "":
		s.problem = ""
		logger.Info("Self-signed certificates are in place")
	}
}
