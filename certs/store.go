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

// store persists the state of self-signed certificates.
type store interface {
	// load returns the stored state; nil if there is none or it is unusable.
	load(ctx context.Context) (*state, error)
	// save stores the state. It returns a conflict error, as an API server does, if another replica saved a state since
	// load.
	save(ctx context.Context, s *state) error
}

// memory is a store in memory, for a single process.
type memory struct{ stored *state }

var _ store = (*memory)(nil)

func (m *memory) load(context.Context) (*state, error) { return m.stored, nil }

func (m *memory) save(_ context.Context, s *state) error {
	m.stored = s
	return nil
}

// secret is a store in a Secret that replicas share. It must exist, because the right to create Secrets cannot be
// limited to one name.
type secret struct {
	api   typedcorev1.SecretInterface
	name  string
	clock clock.PassiveClock
	// found is the Secret that load read.
	found *corev1.Secret
	// reported is the last logged problem of the Secret; the same problem is not logged again.
	reported string
}

var _ store = (*secret)(nil)

func (s *secret) load(ctx context.Context) (*state, error) {
	found, err := s.api.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get secret %q, which must exist but may be empty: %w", s.name, err)
	}
	s.found = found
	if len(found.Data) == 0 {
		return nil, nil
	}
	stored, err := parseState(found.Data, s.clock.Now())
	if err == nil {
		s.reported = ""
		return stored, nil
	}
	if reason := err.Error(); reason != s.reported {
		s.reported = reason
		klog.FromContext(ctx).Info("Replacing unusable content of the Secret", "secret", klog.KObj(found), "reason", reason)
	}
	return nil, nil
}

func (s *secret) save(ctx context.Context, next *state) error {
	data, err := next.encode()
	if err != nil {
		return err
	}
	// The copy has the resourceVersion that load read.
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
