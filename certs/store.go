package certs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// secret is a store in a Secret that replicas share. The chart creates it. If it is lost, it is created again by a patch:
// unlike other requests that create, the right to do so can be limited to one name.
type secret struct {
	api   typedcorev1.SecretInterface
	name  string
	clock clock.PassiveClock
	// mayCreate reports whether a lost Secret may be created again. An uninstallation deletes it for good.
	mayCreate func(context.Context) bool
	// lost is the time since when the Secret has not existed; zero if it exists.
	lost time.Time
	// found is the Secret that load read.
	found *corev1.Secret
	// reported is the last logged problem of the Secret; the same problem is not logged again.
	reported string
}

var _ store = (*secret)(nil)

// recreateAfter is how long a Secret must be lost before it is created again: an upgrade that changes the certificate
// mode also removes our rights and configurations, but not at the same instant.
const recreateAfter = 5 * time.Second

func (s *secret) load(ctx context.Context) (*state, error) {
	found, err := s.get(ctx)
	if err != nil {
		return nil, err
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

// get reads the Secret, and creates it empty if it is lost.
func (s *secret) get(ctx context.Context) (*corev1.Secret, error) {
	found, err := s.api.Get(ctx, s.name, metav1.GetOptions{})
	if err == nil {
		s.lost = time.Time{}
		return found, nil
	}
	err = fmt.Errorf("get secret %q: %w", s.name, err)
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	if s.lost.IsZero() {
		s.lost = s.clock.Now()
	}
	if s.clock.Since(s.lost) < recreateAfter || !s.mayCreate(ctx) {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": corev1.SecretTypeOpaque,
		"metadata": map[string]any{"name": s.name}, // no labels: those of the chart would conflict with them
	})
	if err != nil {
		return nil, fmt.Errorf("create secret %q: %w", s.name, err)
	}
	// If another replica is faster, this changes nothing: the data has other owners.
	found, err = s.api.Patch(ctx, s.name, types.ApplyYAMLPatchType, body, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return nil, fmt.Errorf("create secret %q: %w", s.name, err)
	}
	klog.FromContext(ctx).Info("Created the lost Secret again", "secret", klog.KObj(found))
	return found, nil
}

// save changes only our keys, and only in the version of the Secret that load read.
func (s *secret) save(ctx context.Context, next *state) error {
	data, err := next.encode()
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": s.found.ResourceVersion}, "data": data,
	})
	if err != nil {
		return errors.New("encode secret: unsupported type") // the cause might quote a key
	}
	if _, err := s.api.Patch(ctx, s.name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("patch secret %q: %w", s.name, err)
	}
	return nil
}
