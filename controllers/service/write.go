package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const fieldManager = "quaymaster-controllers"

// write changes what is ours of a Service, provided that the Service is still the one given: UID and resourceVersion
// are preconditions, so that lists can be written as a whole without losing what others added. Nothing is written if
// there is no difference. It returns the Service as it is afterwards.
//
// One write can change finalizers, annotations and status, because the API server accepts metadata in a patch of the
// status.
func (c *Controller) write(
	ctx context.Context, svc *corev1.Service, change func(*corev1.Service),
) (*corev1.Service, error) {
	after := svc.DeepCopy()
	change(after)
	patch := difference(svc, after)
	if patch == nil {
		return svc, nil
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return svc, fmt.Errorf("encode the patch of the service: %w", err)
	}
	c.written.begin(after)
	written, err := c.client.Services(svc.Namespace).Patch(ctx, svc.Name, types.MergePatchType, data,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		c.written.forget(svc.UID)
		if outdated(err) {
			err = fmt.Errorf("%w: %w", errStale, err)
		}
		return svc, fmt.Errorf("write the service: %w", err)
	}
	c.written.end(written)
	return written, nil
}

// difference returns the merge patch from one state of a Service to another, of those parts that are ours, or nil.
func difference(before, after *corev1.Service) map[string]any {
	metadata, status := map[string]any{}, map[string]any{}
	if !equality.Semantic.DeepEqual(before.Finalizers, after.Finalizers) {
		metadata["finalizers"] = after.Finalizers
	}
	annotations := map[string]any{}
	for _, key := range []string{AnnotationRecord, annotationClaim} {
		old, had := before.Annotations[key]
		switch value, has := after.Annotations[key]; {
		case has && (!had || old != value):
			annotations[key] = value
		case had && !has:
			annotations[key] = nil
		}
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	if !equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions) {
		status["conditions"] = after.Status.Conditions
	}
	if !equality.Semantic.DeepEqual(before.Status.LoadBalancer, after.Status.LoadBalancer) {
		status["loadBalancer"] = map[string]any{"ingress": after.Status.LoadBalancer.Ingress}
	}
	if len(metadata) == 0 && len(status) == 0 {
		return nil
	}
	metadata["uid"], metadata["resourceVersion"] = before.UID, before.ResourceVersion
	patch := map[string]any{"metadata": metadata}
	if len(status) > 0 {
		patch["status"] = status
	}
	return patch
}

// errStale is the error of a write of a Service that is no longer the one that was read.
var errStale = errors.New("the service has changed")

// outdated reports whether the API server rejected a precondition. It may report another UID as an invalid change of it.
func outdated(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsInvalid(err) || apierrors.IsNotFound(err)
}

// reread returns the Service as the API server has it, or nil if it is gone.
func (c *Controller) reread(ctx context.Context, svc *corev1.Service) (*corev1.Service, error) {
	now, err := c.o.Reader.Services(svc.Namespace).Get(ctx, svc.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && now.UID != svc.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the service again: %w", err)
	}
	return now, nil
}
