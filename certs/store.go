package certs

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// store keeps the state of self-signed certificates.
type store interface {
	// load is what is kept; nil if that is nothing, or nothing that can be used.
	load(ctx context.Context) (*state, error)
	// save keeps the state, unless somebody else saved one since load: that is a conflict as API servers call it.
	save(ctx context.Context, s *state) error
}

// memory is the store of one process.
type memory struct{ kept *state }

var _ store = (*memory)(nil)

func (m *memory) load(context.Context) (*state, error) { return m.kept, nil }

func (m *memory) save(_ context.Context, s *state) error {
	m.kept = s
	return nil
}

// secret is the store that replicas share. Somebody else creates it: a right to create Secrets cannot be limited to one name.
type secret struct {
	api   typedcorev1.SecretInterface
	name  string
	clock clock.PassiveClock
	// found is what load saw.
	found *corev1.Secret
	// reported is what was wrong with it; the same is not logged again.
	reported string
}

var _ store = (*secret)(nil)

func (s *secret) load(ctx context.Context) (*state, error) {
	found, err := s.api.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get secret %q, which should be there, if only empty: %w", s.name, err)
	}
	s.found = found
	if len(found.Data) == 0 {
		return nil, nil
	}
	kept, err := parseState(found.Data, s.clock.Now())
	if err == nil {
		s.reported = ""
		return kept, nil
	}
	if reason := err.Error(); reason != s.reported {
		s.reported = reason
		klog.FromContext(ctx).Info("Replacing what is in the Secret: it is of no use", "secret", klog.KObj(found), "reason", reason)
	}
	return nil, nil
}

func (s *secret) save(ctx context.Context, next *state) error {
	data, err := next.encode()
	if err != nil {
		return err
	}
	// With the resourceVersion that load saw.
	changed := s.found.DeepCopy()
	if changed.Data == nil {
		changed.Data = map[string][]byte{}
	}
	maps.Copy(changed.Data, data)
	if _, err := s.api.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update secret %q: %w", s.name, err)
	}
	return nil
}
