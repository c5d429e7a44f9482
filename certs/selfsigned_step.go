package certs

import (
	"context"
	"crypto/x509"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// agree makes our state the one in the store, after a change if one is due. Of replicas that change it at the same time, one
// succeeds, and the others take what it did.
func (s *SelfSigned) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kept, err := s.store.load(ctx)
	if err != nil {
		return err
	}
	base := kept
	if base == nil {
		// What was lost while we serve comes back as it was, and no API server has to learn anything.
		base = s.state
	}
	next, err := s.rotation.next(base, s.o.Clock.Now(), s.known)
	if err != nil {
		return err
	}
	if next != kept {
		if err := s.store.save(ctx, next); apierrors.IsConflict(err) {
			return s.agree(ctx)
		} else if err != nil {
			return err
		}
		klog.FromContext(ctx).Info("Keeping new self-signed certificates",
			"expires", next.serving.Leaf.NotAfter, "authorityExpires", next.authority.cert.NotAfter)
	}
	s.state = next
	return nil
}

// change serves the certificate of the state as soon as API servers trust it.
func (s *SelfSigned) change(ctx context.Context) {
	if s.state == nil {
		return
	}
	old, next := s.serving.Load(), s.state.serving
	if old != nil && old.Leaf.Equal(next.Leaf) {
		s.serving.Store(next) // the same one, read again
		return
	}
	if signer := s.state.signer(); old != nil && !signer.Equal(s.signer) && !s.known(signer) {
		return
	}
	s.serve(s.state)
	klog.FromContext(ctx).Info("Serving a new self-signed certificate", "expires", next.Leaf.NotAfter)
}

func (s *SelfSigned) serve(from *state) {
	s.signer = from.signer()
	s.serving.Store(from.serving)
}

// known tells whether API servers have had the time to see an authority.
func (s *SelfSigned) known(cert *x509.Certificate) bool {
	since, ok := s.published[string(cert.Raw)]
	return ok && s.o.Clock.Since(since) >= min(propagation, s.o.Validity/10)
}

// publish makes sure that our authorities are in the bundles of every configuration.
func (s *SelfSigned) publish(ctx context.Context) error {
	if s.state == nil {
		return nil
	}
	ours := s.state.authorities()
	if s.signer != nil && !slices.ContainsFunc(ours, s.signer.Equal) {
		ours = append(ours, s.signer)
	}
	for _, object := range s.objects {
		if err := publishIn(ctx, object, ours, s.o.Clock); err != nil {
			return err
		}
	}
	for _, cert := range ours {
		if _, ok := s.published[string(cert.Raw)]; !ok {
			s.published[string(cert.Raw)] = s.o.Clock.Now()
		}
	}
	return nil
}
