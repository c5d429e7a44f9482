package service

import (
	"errors"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"quaymaster.dev/internal/kube/condition"
)

// The reasons of Events, which are those of the app's controller.
const (
	reasonEnsuring = "EnsuringLoadBalancer"
	reasonEnsured  = "EnsuredLoadBalancer"
	reasonFailed   = condition.EventFailed
	reasonDeleting = "DeletingLoadBalancer"
	reasonDeleted  = "DeletedLoadBalancer"
)

// failing is the log line about a Service whose passes fail, which appears once.
const failing = "failing"

func (c *Controller) event(svc *corev1.Service, reason, message string) {
	c.recorder.Event(svc, corev1.EventTypeNormal, reason, message)
}

// failed reports a failed attempt.
func (c *Controller) failed(svc *corev1.Service, err error) {
	if errors.Is(err, ErrNotReady) {
		return
	}
	c.recorder.Eventf(svc, corev1.EventTypeWarning, reasonFailed, "Error syncing load balancer: %v", err)
}

// told has what was already said about Services, so that it is not repeated on every pass.
type told struct{ said sync.Map }

type statement struct {
	uid  types.UID
	what string
}

// first reports whether this is the first time that something is said about a Service.
func (t *told) first(uid types.UID, what string) bool {
	_, already := t.said.LoadOrStore(statement{uid, what}, nil)
	return !already
}

// withdraw lets things about a Service be said again.
func (t *told) withdraw(uid types.UID, what ...string) {
	for _, w := range what {
		t.said.Delete(statement{uid, w})
	}
}

// forget lets everything about a Service be said again.
func (t *told) forget(uid types.UID) { t.withdraw(uid, failing, reasonDeleting) }
