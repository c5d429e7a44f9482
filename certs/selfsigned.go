package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// authorityDuration is the validity of a self-signed authority.
	authorityDuration = 10 * 365 * 24 * time.Hour
	// settledEvery is the longest interval of steps. Changes by others cause a step immediately, so this is only for
	// changes that are missed and for authorities that are no longer needed.
	settledEvery = 10 * time.Minute
	// propagation is the time that API servers may take to see a new bundle.
	propagation = 10 * time.Second
	// keepPrevious is how long a previous CA of ours stays in a bundle. The other replicas may still serve a
	// certificate of it, but its key may also have become known to others.
	keepPrevious = time.Hour
	// keepForeign is how long foreign authorities stay in a bundle. When the source of certificates has changed, pods
	// with a certificate of the previous source serve until a roll-out, perhaps a slow one, replaces them.
	keepForeign = 24 * time.Hour
)

// SelfSignedOptions holds the dependencies of a SelfSigned; all of them are required except Namespace and Secret.
type SelfSignedOptions struct {
	// Hosts are the DNS names and IP addresses that API servers call.
	Hosts []string
	// Validity is the lifetime of a certificate, which is replaced after two thirds of it.
	Validity time.Duration
	// API reads, watches and patches the configurations, and reads, watches and updates the Secret.
	API dynamic.Interface
	// Configurations are those whose bundles get the authority.
	Configurations Configurations
	// Namespace and Secret name the Secret with the authority that replicas share. Without one, a single replica has an
	// authority in memory, and a restart creates a new one.
	Namespace, Secret string
	// Clock provides the time.
	Clock clock.Clock
}

// SelfSigned issues its own certificates in memory and adds their authority to the bundles of our webhook
// configurations. Replicas share only the authority, in a Secret that already exists. If it contains none, one of them
// stores a new one; a certificate of the new authority is served when API servers have had time to see it.
type SelfSigned struct {
	o       SelfSignedOptions
	objects []configuration
	secrets dynamic.ResourceInterface
	serving atomic.Pointer[tls.Certificate]
	// problem is the last logged problem; the same problem is not logged again.
	problem problem
	// authority is the one last read from or written to the Secret, and signer the one that signed the served certificate.
	authority, signer *tls.Certificate
	// announced is the time since when the authority has been in every bundle; zero if it has not.
	announced time.Time
	// seen holds the time since when we have seen each other authority, by its DER, in a bundle.
	seen map[string]time.Time
}

var _ Source = (*SelfSigned)(nil)

// NewSelfSigned returns a source that has no certificate until it is started.
func NewSelfSigned(o SelfSignedOptions) *SelfSigned {
	return &SelfSigned{
		o: o, objects: o.Configurations.objects(o.API), secrets: o.API.Resource(secretsResource).Namespace(o.Namespace),
	}
}

// GetCertificate returns the certificate to serve.
func (s *SelfSigned) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cert := s.serving.Load(); cert != nil {
		return cert, nil
	}
	return nil, errors.New(cmp.Or(s.problem.String(), "secret with the self-signed authority has not been read yet"))
}

// Start patches configurations and replaces the certificate until the context ends: whenever the configurations or the
// Secret change, and when the certificate is due for renewal. Errors are logged, and the step is retried.
func (s *SelfSigned) Start(ctx context.Context) error {
	changed := newSignal()
	var watches sync.WaitGroup
	defer watches.Wait()
	for _, object := range s.objects {
		watches.Go(func() { changed.watch(ctx, object.api, object.name) })
	}
	if s.o.Secret != "" {
		watches.Go(func() { changed.watch(ctx, s.secrets, s.o.Secret) })
	}
	repeat(ctx, s.o.Clock, changed, func() time.Duration { return s.step(ctx) })
	return nil
}

// step does whatever is due, and returns how long after it the next one is due even if nothing changes.
func (s *SelfSigned) step(ctx context.Context) time.Duration {
	err := s.sync(ctx)
	logger := klog.FromContext(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil && s.problem.set(err.Error()):
		logger.Error(err, "Failed to set up self-signed certificates, will retry")
	case err == nil && s.problem.set(""):
		logger.Info("Self-signed certificates are set up")
	}
	if err != nil || s.signer != s.authority {
		return retryEvery
	}
	// The jitter lets the replicas take their steps at different times.
	due := min(wait.Jitter(settledEvery, 0.1), renewalTime(s.serving.Load().Leaf).Sub(s.o.Clock.Now()))
	return max(due, time.Second)
}

// sync does whatever is due. Without access to the Secret or the configurations, the last authority stays in use.
func (s *SelfSigned) sync(ctx context.Context) error {
	err := s.adopt(ctx)
	if s.authority == nil {
		return err
	}
	return cmp.Or(err, s.publish(ctx), s.serve(ctx))
}

// adopt reads the authority. If there is none, or it is due for renewal, adopt stores a new one.
func (s *SelfSigned) adopt(ctx context.Context) error {
	now := s.o.Clock.Now()
	if s.o.Secret == "" {
		var err error
		if s.authority == nil {
			s.authority, err = newAuthority(now, authorityDuration)
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	secret, err := s.secrets.Get(ctx, s.o.Secret, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("secret %q does not exist; create it again with helm upgrade", s.o.Secret)
	}
	if err != nil {
		return fmt.Errorf("get secret %q: %w", s.o.Secret, err)
	}
	read, err := typed[corev1.Secret](secret)
	if err != nil {
		return fmt.Errorf("read secret %q: %w", s.o.Secret, err)
	}
	found, unusable := parseAuthority(read.Data, now)
	if unusable != nil {
		if found, err = newAuthority(now, authorityDuration); err == nil {
			err = s.store(ctx, found, secret)
		}
		if apierrors.IsConflict(err) {
			return s.adopt(ctx) // another replica was faster
		}
		if err != nil {
			return fmt.Errorf("update secret %q: %w", s.o.Secret, err)
		}
		klog.FromContext(ctx).Info("Stored a new certificate authority", "secret", klog.KObj(secret),
			"reason", unusable.Error(), "expires", found.Leaf.NotAfter)
	}
	if s.authority == nil || !s.authority.Leaf.Equal(found.Leaf) {
		s.authority, s.announced = found, time.Time{}
	}
	return nil
}

// store writes the authority to the version of the Secret that was read. What else it contains stays.
func (s *SelfSigned) store(ctx context.Context, a *tls.Certificate, secret *unstructured.Unstructured) error {
	data, err := encodeAuthority(a)
	if err != nil {
		return err
	}
	for key, value := range data {
		if err := unstructured.SetNestedField(secret.Object, base64.StdEncoding.EncodeToString(value), "data", key); err != nil {
			return err
		}
	}
	_, err = s.secrets.Update(ctx, secret, metav1.UpdateOptions{})
	return err
}

// publish ensures that our authority is in the bundles of every configuration, and that of the served certificate.
func (s *SelfSigned) publish(ctx context.Context) error {
	ours := []*x509.Certificate{s.authority.Leaf}
	if s.signer != nil && s.signer != s.authority {
		ours = append(ours, s.signer.Leaf)
	}
	now, seen := s.o.Clock.Now(), map[string]time.Time{}
	keep := func(cert *x509.Certificate) bool {
		since, known := s.seen[string(cert.Raw)]
		if !known {
			since = now
		}
		seen[string(cert.Raw)] = since
		if slices.Contains(cert.Subject.Organization, organization) {
			return now.Sub(since) < keepPrevious
		}
		return now.Sub(since) < keepForeign
	}
	for _, object := range s.objects {
		changed, err := object.publish(ctx, func(bundle []byte) []byte { return mergeBundle(bundle, ours, keep, now) })
		if err != nil {
			return err
		}
		if changed {
			s.announced = time.Time{}
		}
	}
	s.seen = seen
	if s.announced.IsZero() {
		s.announced = now
	}
	return nil
}

// serve issues a certificate if one is due. While API servers may not have seen a new authority, the previous one signs.
func (s *SelfSigned) serve(ctx context.Context) error {
	now, old, signer := s.o.Clock.Now(), s.serving.Load(), s.authority
	if old != nil && (s.announced.IsZero() || now.Sub(s.announced) < propagation) {
		signer = s.signer
	}
	if old != nil && signer == s.signer && now.Before(renewalTime(old.Leaf)) {
		return nil
	}
	next, err := issue(signer, now, s.o.Validity, s.o.Hosts)
	if err != nil {
		return err
	}
	s.signer = signer
	s.serving.Store(next)
	klog.FromContext(ctx).Info("Serving a new self-signed certificate", "expires", next.Leaf.NotAfter)
	return nil
}
