package dlb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/condition"
)

const (
	// stepsAtOnce limits the steps of a pass that follow each other at once, such as adoption and configuration.
	stepsAtOnce = 3
	// atOnce is the longest delay of a step that is not waited for.
	atOnce = time.Second
)

// laterError says that a load balancer is not finished, and when the controller would call again.
type laterError struct {
	error

	after time.Duration
}

func (e *laterError) Unwrap() error { return e.error }

// ensureStored ensures the load balancer of a Service that is in the cluster, and returns what is to be published.
func (f *fixture) ensureStored(svc *corev1.Service) (*corev1.LoadBalancerStatus, error) {
	f.t.Helper()
	state, err := f.passes(svc, f.Ensure)
	if err != nil {
		return nil, err
	}
	return state.Published, nil
}

// removeStored removes the load balancer of a Service that is in the cluster, and succeeds once it is gone.
func (f *fixture) removeStored(svc *corev1.Service) error {
	f.t.Helper()
	if _, err := f.passes(svc, f.Remove); err != nil {
		return err
	}
	return f.patch(svc, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{service.AnnotationRecord: nil}},
		"status":   map[string]any{"conditions": nil},
	})
}

// passes calls step until it is finished or waits for the cloud, and stores what it returns as the service controller
// does.
func (f *fixture) passes(
	svc *corev1.Service, step func(context.Context, *corev1.Service) (service.State, error),
) (service.State, error) {
	f.t.Helper()
	for left := stepsAtOnce; ; left-- {
		state, err := step(f.t.Context(), svc)
		stored, unwritten := f.store(svc, state)
		switch {
		case err != nil && state.RetryAfter > 0:
			return state, errors.Join(&laterError{err, state.RetryAfter}, unwritten)
		case err != nil || unwritten != nil:
			return state, errors.Join(err, unwritten)
		case state.RetryAfter == 0:
			return state, nil
		case state.RetryAfter > atOnce || left == 1:
			return state, &laterError{
				errors.New(meta.FindStatusCondition(stored.Status.Conditions, condition.Configured).Message), state.RetryAfter,
			}
		}
		svc = stored
	}
}

// store writes record and conditions if they differ, and returns the Service with them.
func (f *fixture) store(svc *corev1.Service, state service.State) (*corev1.Service, error) {
	f.t.Helper()
	if state.Gone {
		return svc, nil
	}
	stored, changed := svc.DeepCopy(), false
	metadata := map[string]any{}
	if state.Record != "" {
		changed = true
		metav1.SetMetaDataAnnotation(&stored.ObjectMeta, service.AnnotationRecord, state.Record)
		metadata["annotations"] = map[string]any{service.AnnotationRecord: state.Record}
	}
	for _, c := range state.Conditions {
		c.ObservedGeneration, c.LastTransitionTime = svc.Generation, metav1.NewTime(f.clock.Now())
		changed = meta.SetStatusCondition(&stored.Status.Conditions, c) || changed
	}
	if !changed {
		return stored, nil
	}
	conditions := slices.DeleteFunc(slices.Clone(stored.Status.Conditions), func(c metav1.Condition) bool {
		return !strings.HasPrefix(c.Type, condition.Prefix)
	})
	return stored, f.patch(svc, map[string]any{"metadata": metadata, "status": map[string]any{"conditions": conditions}})
}

func (f *fixture) patch(svc *corev1.Service, patch map[string]any) error {
	f.t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = f.client.CoreV1().Services(svc.Namespace).Patch(
		f.t.Context(), svc.Name, types.MergePatchType, data, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("write the service: %w", err)
	}
	return nil
}
