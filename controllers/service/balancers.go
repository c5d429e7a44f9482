package service

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationRecord is the annotation that records the load balancer of a Service, so that it is never created twice. Its
// value is opaque to this package. It outlives this program: the key must not change.
const AnnotationRecord = "quaymaster.dev/load-balancer"

// annotationClaim is the annotation that earlier versions have added together with their finalizer.
const annotationClaim = "quaymaster.dev/load-balancer-claim"

// Balancers manages the load balancers of Services in the cloud. Its methods may be called for different Services at
// the same time, and never wait for the cloud to finish its work: they send at most the next write and return.
type Balancers interface {
	// Owned reports whether a Service asks for a load balancer of ours, by its type and class.
	Owned(svc *corev1.Service) bool
	// Ensure brings the load balancer of a Service closer to what the Service asks for. With an error, the State is
	// still valid and has the conditions that report the error.
	Ensure(ctx context.Context, svc *corev1.Service) (State, error)
	// Remove brings the load balancer of a Service closer to its deletion, or to its release if the Service asks for
	// that. State.Gone reports the end. The Service may ask for a load balancer of another controller by now.
	Remove(ctx context.Context, svc *corev1.Service) (State, error)
}

// ErrNotReady is for errors of Balancers that only wait for what the controllers read or write after they start. They
// are neither logged nor reported in Events.
var ErrNotReady = errors.New("not ready yet")

// State is what is known of a Service's load balancer after a call of Balancers.
type State struct {
	// Record is the value of AnnotationRecord. It is stored before or together with Published. Empty means: leave it as
	// it is.
	Record string
	// Published is what the status of the Service publishes; nil means: leave it as it is.
	Published *corev1.LoadBalancerStatus
	// Conditions replace the conditions of the same types. Their messages must be the same on every try, because every
	// difference is written. The controller sets observedGeneration and lastTransitionTime.
	Conditions []metav1.Condition
	// Gone is true if the cloud has confirmed that nothing is left, so that record, conditions and finalizer can go.
	Gone bool
	// Missing is true if the load balancer that the Service records is not in the cloud.
	Missing bool
	// RetryAfter is when to call again if nothing changes before; 0 means that there is no need to, unless there is an
	// error: then the controller backs off.
	RetryAfter time.Duration
}
