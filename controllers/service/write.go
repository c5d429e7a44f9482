package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// written has the Services as this controller wrote them last, until the informer shows them. A pass that started from
// an older state could repeat what was done, and our own writes must not cause a pass.
type written struct {
	mu       sync.Mutex
	services map[types.UID]*corev1.Service
	// pending are those that are about to be written: their resourceVersion is the one before the write.
	pending map[types.UID]bool
}

func newWritten() *written {
	return &written{services: map[types.UID]*corev1.Service{}, pending: map[types.UID]bool{}}
}

// put remembers a Service that was written or, if pending, is about to be.
func (w *written) put(svc *corev1.Service, pending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.services[svc.UID] = svc
	delete(w.pending, svc.UID)
	if pending {
		w.pending[svc.UID] = true
	}
}

// forget drops a Service that could not be written or is gone.
func (w *written) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(uid)
}

// drop is forget for callers that hold the lock.
func (w *written) drop(uid types.UID) {
	delete(w.services, uid)
	delete(w.pending, uid)
}

// newest returns the Service as written if that is later than what the informer has.
func (w *written) newest(informed *corev1.Service) *corev1.Service {
	w.mu.Lock()
	defer w.mu.Unlock()
	ours := w.services[informed.UID]
	switch {
	case ours == nil:
		return informed
	case later(ours, informed):
		return ours
	}
	w.drop(informed.UID)
	return informed
}

// informed compares a Service that the informer shows with what we wrote, and forgets that once the informer has caught
// up. known is true if a pass has already seen this state: the precondition of our write ensures that. ours is true if
// what is ours of the Service is as we wrote it; the informer may show a write before its response arrives.
func (w *written) informed(svc *corev1.Service) (known, ours bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := w.services[svc.UID]
	switch {
	case last == nil:
		return false, false
	case later(last, svc):
		return true, true
	case w.pending[svc.UID] && last.ResourceVersion == svc.ResourceVersion:
		return true, true // the informer is late: it shows the state that the write starts from
	}
	w.drop(svc.UID)
	return last.ResourceVersion == svc.ResourceVersion, sameEntries(last, svc)
}

func later(a, b *corev1.Service) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}

// sameEntries reports whether everything that we write is the same in two states of a Service.
func sameEntries(a, b *corev1.Service) bool { return difference(a, b) == nil }

// sameRequest reports whether two states of a Service ask for the same. Which annotations count, only the cloud's side
// knows.
func sameRequest(a, b *corev1.Service) bool {
	return a.DeletionTimestamp.IsZero() == b.DeletionTimestamp.IsZero() &&
		equality.Semantic.DeepEqual(a.Spec, b.Spec) && sameAnnotations(a.Annotations, b.Annotations)
}

// sameAnnotations compares annotations other than ours.
func sameAnnotations(a, b map[string]string) bool {
	return maps.Equal(foreign(a), foreign(b))
}

func foreign(annotations map[string]string) map[string]string {
	rest := maps.Clone(annotations)
	delete(rest, AnnotationRecord)
	delete(rest, annotationClaim)
	return rest
}

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
	c.written.put(after, true)
	written, err := c.client.Services(svc.Namespace).Patch(ctx, svc.Name, types.MergePatchType, data,
		metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		c.written.forget(svc.UID)
		if outdated(err) {
			err = fmt.Errorf("%w: %w", errStale, err)
		}
		return svc, fmt.Errorf("write the service: %w", err)
	}
	c.written.put(written, false)
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
