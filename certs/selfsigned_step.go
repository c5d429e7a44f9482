package certs

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
)

// syncState adopts the stored state, after changing it if a change is due. If several replicas change it at the same
// time, one succeeds and the others adopt its state.
func (s *SelfSigned) syncState(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stored, err := s.store.load(ctx)
	if err != nil {
		return err
	}
	base := stored
	if base == nil {
		// A stored state that was lost while we serve is restored unchanged, so that API servers need no new authority.
		base = s.state
	}
	next, err := s.rotation.next(base, s.o.Clock.Now(), s.propagated)
	if err != nil {
		return err
	}
	if next != stored {
		if err := s.store.save(ctx, next); apierrors.IsConflict(err) {
			return s.syncState(ctx)
		} else if err != nil {
			return err
		}
		klog.FromContext(ctx).Info("Stored new self-signed certificates",
			"expires", next.serving.Leaf.NotAfter, "authorityExpires", next.authority.cert.NotAfter)
	}
	s.state = next
	return nil
}

// serveCurrent serves the certificate of the state as soon as API servers trust it.
func (s *SelfSigned) serveCurrent(ctx context.Context) {
	if s.state == nil {
		return
	}
	old, next := s.serving.Load(), s.state.serving
	if old != nil && old.Leaf.Equal(next.Leaf) {
		s.serving.Store(next) // the same certificate, read again
		return
	}
	if signer := s.state.signer(); old != nil && !signer.Equal(s.signer) && !s.propagated(signer) {
		return
	}
	s.serve(s.state)
	klog.FromContext(ctx).Info("Serving a new self-signed certificate", "expires", next.Leaf.NotAfter)
}

func (s *SelfSigned) serve(from *state) {
	s.signer = from.signer()
	s.serving.Store(from.serving)
}

// propagated reports whether API servers have had time to see an authority.
func (s *SelfSigned) propagated(cert *x509.Certificate) bool {
	since, ok := s.published[string(cert.Raw)]
	return ok && s.o.Clock.Since(since) >= min(propagation, s.o.Validity/10)
}

// publish ensures that our authorities are in the bundles of every configuration.
func (s *SelfSigned) publish(ctx context.Context) error {
	if s.state == nil {
		return nil
	}
	ours := s.state.authorities()
	if s.signer != nil && !slices.ContainsFunc(ours, s.signer.Equal) {
		ours = append(ours, s.signer)
	}
	now := s.o.Clock.Now()
	foreign := map[string]time.Time{}
	keep := func(cert *x509.Certificate) bool {
		since, seen := s.foreign[string(cert.Raw)]
		if !seen {
			since = now
		}
		foreign[string(cert.Raw)] = since
		return now.Sub(since) < keepForeign
	}
	s.overwritten = false
	for _, object := range s.objects {
		changed, err := publishIn(ctx, object, func(bundle []byte) []byte { return mergeBundle(bundle, ours, keep, now) })
		if err != nil {
			return err
		}
		s.overwritten = s.overwritten || changed
	}
	s.foreign = foreign
	for _, cert := range ours {
		if _, ok := s.published[string(cert.Raw)]; !ok {
			s.published[string(cert.Raw)] = now
		}
	}
	return nil
}

// installed reports whether one of our configurations exists. They are the first objects that an uninstallation deletes.
func (s *SelfSigned) installed(ctx context.Context) bool {
	return slices.ContainsFunc(s.objects, func(object configuration) bool {
		_, err := object.get(ctx)
		return err == nil
	})
}
