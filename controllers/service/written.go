package service

import (
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// begin remembers a Service that is about to be written.
func (w *written) begin(svc *corev1.Service) { w.put(svc, true) }

// end remembers a Service that was written.
func (w *written) end(svc *corev1.Service) { w.put(svc, false) }

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
