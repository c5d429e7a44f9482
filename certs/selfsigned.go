package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	client "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// urgentEvery is the interval of steps while something is missing, and of steps because of changes.
	urgentEvery = time.Second
	// retryEvery is the interval of steps while a problem persists, but the certificate is served, and while another
	// process keeps overwriting what we write.
	retryEvery = 5 * time.Second
	// settledEvery is the longest interval of steps. Changes by others cause a step immediately, so this is only for
	// changes that are missed and for authorities that expire.
	settledEvery = 10 * time.Minute
	// propagation is the time that API servers may take to see a new bundle.
	propagation = 10 * time.Second
)

// SelfSignedOptions holds the dependencies of a SelfSigned; all of them are required except Secrets and Secret.
type SelfSignedOptions struct {
	// Hosts are the DNS names and IP addresses that API servers call.
	Hosts []string
	// Validity is the lifetime of a certificate; that of the authority is ten times longer. Both are replaced after two
	// thirds of it.
	Validity time.Duration
	// API reads, watches and patches the configurations.
	API client.AdmissionregistrationV1Interface
	// Configurations are those whose bundles get the authority.
	Configurations Configurations
	// Secrets reads, watches, patches and creates the Secret, in its namespace.
	Secrets typedcorev1.SecretInterface
	// Secret is the name of the Secret that replicas share and that outlives them. Without one, everything is in
	// memory: each replica has its own authority, and a restart creates a new one.
	Secret string
	// Clock provides the time.
	Clock clock.Clock
}

// SelfSigned issues its own certificates and adds their authorities to the bundles of our webhook configurations. A new
// certificate is served only when API servers trust its authority, and the authority of the old one stays in the
// bundles until it expires.
type SelfSigned struct {
	o        SelfSignedOptions
	rotation rotation
	store    store
	objects  []configuration
	serving  atomic.Pointer[tls.Certificate]
	// reason describes why nothing is served yet.
	reason atomic.Pointer[string]
	// state is the state last read from or written to the store.
	state *state
	// signer is the authority that signed the served certificate.
	signer *x509.Certificate
	// published holds the time since when each authority, by its DER, has been in every bundle.
	published map[string]time.Time
	// foreign holds the time since when we have seen each foreign authority, by its DER, in a bundle.
	foreign map[string]time.Time
	// overwritten is true if the last step had to change a bundle.
	overwritten bool
	// problem is the last logged problem; the same problem is not logged again.
	problem string
}

var _ Source = (*SelfSigned)(nil)

// NewSelfSigned returns a source. Without a Secret, it issues the first certificate.
func NewSelfSigned(o SelfSignedOptions) (*SelfSigned, error) {
	s := &SelfSigned{
		o: o, rotation: rotation{hosts: o.Hosts, validity: o.Validity},
		objects: o.Configurations.objects(o.API), published: map[string]time.Time{},
	}
	reason := "secret with self-signed certificates has not been read yet"
	s.reason.Store(&reason)
	if o.Secret != "" {
		s.store = &secret{api: o.Secrets, name: o.Secret, clock: o.Clock, mayCreate: s.installed}
		return s, nil
	}
	first, err := s.rotation.next(nil, o.Clock.Now(), s.propagated)
	if err != nil {
		return nil, err
	}
	s.store = &memory{stored: first}
	s.state = first
	s.serve(first)
	return s, nil
}

// GetCertificate returns the certificate to serve.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := s.serving.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New(*s.reason.Load())
}

// NeedLeaderElection returns false because every replica serves.
func (s *SelfSigned) NeedLeaderElection() bool { return false }

// Start patches configurations and rotates certificates until the context ends: whenever the configurations or the
// Secret change, and when a certificate is due for renewal. Errors are logged, and the step is retried.
func (s *SelfSigned) Start(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	var watches sync.WaitGroup
	defer watches.Wait()
	s.watch(ctx, &watches, changed)
	for overwritten := false; ; overwritten = s.overwritten {
		s.step(ctx)
		// Steps cause changes themselves. If another process overwrites what every step writes, steps must be rare.
		pause := urgentEvery
		if overwritten && s.overwritten {
			pause = retryEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.o.Clock.After(pause):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-s.o.Clock.After(s.due() - pause):
		}
	}
}

// watch sends to changed when the configurations or the Secret change, until the context ends.
func (s *SelfSigned) watch(ctx context.Context, watches *sync.WaitGroup, changed chan<- struct{}) {
	notify := func() {
		select {
		case changed <- struct{}{}:
		default: // The next step sees this change, too.
		}
	}
	failed := func(error) {} // steps report the problem
	for _, object := range s.objects {
		watches.Go(func() { object.watch(ctx, func(*configurationState) { notify() }, failed) })
	}
	if s.o.Secret != "" {
		watches.Go(func() {
			watchNamed(ctx, s.o.Secrets, named[corev1.Secret]{s.o.Secret, func(*corev1.Secret) { notify() }, failed})
		})
	}
}

// due returns how long after the last step the next one is due even if nothing changes.
func (s *SelfSigned) due() time.Duration {
	switch {
	case !s.settled():
		return urgentEvery
	case s.problem != "":
		return retryEvery
	}
	// The jitter lets the replicas take their steps at different times.
	due := wait.Jitter(settledEvery, 0.1)
	for _, cert := range []*x509.Certificate{s.serving.Load().Leaf, s.signer} {
		due = min(due, renewalTime(cert).Sub(s.o.Clock.Now()))
	}
	return max(due, urgentEvery)
}

// settled reports whether the certificate of the state is served and signed by the current authority.
func (s *SelfSigned) settled() bool {
	return s.state != nil && s.serving.Load() == s.state.serving && s.signer.Equal(s.state.authority.cert)
}

// step does whatever is due: issue a certificate, patch the configurations, serve the new certificate.
func (s *SelfSigned) step(ctx context.Context) {
	err := s.syncState(ctx)
	if publishErr := s.publish(ctx); err == nil {
		err = publishErr
	}
	s.serveCurrent(ctx)
	logger := klog.FromContext(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil && err.Error() != s.problem:
		reason := err.Error()
		s.reason.Store(&reason)
		s.problem = reason
		logger.Error(err, "Failed to set up self-signed certificates, will retry")
	case err == nil && s.problem != "":
		s.problem = ""
		logger.Info("Self-signed certificates are set up")
	}
}
