// Package leadership tells whether somebody leads: from outside by the lease and the API server's own clock, and from inside, for the
// leader itself, by its own.
package leadership

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The leases of the controllers, as their flags have them by default: with a cloud, and without one.
const (
	Namespace   = metav1.NamespaceSystem
	CloudLease  = "cloud-controller-manager"
	PolicyLease = "quaymaster-policy-controller"
)

// State is what a lease says.
type State struct {
	// Holder is who has the lease; empty if nobody.
	Holder string
	// Age is how long ago it was renewed.
	Age time.Duration
	// Held tells whether the holder still leads: it has renewed the lease within its duration.
	Held bool
}

// Of judges a lease at a time of the clock by which it is renewed; nil is no lease.
func Of(lease *coordinationv1.Lease, now time.Time) State {
	if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" ||
		lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return State{}
	}
	s := State{Holder: *lease.Spec.HolderIdentity, Age: now.Sub(lease.Spec.RenewTime.Time)}
	s.Held = s.Age <= time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second
	return s
}

// Read judges the lease by the API server's clock, since this machine's may be wrong.
func Read(ctx context.Context, api kubernetes.Interface, namespace, name string) (State, error) {
	lease, err := api.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("get lease %s/%s: %w", namespace, name, err)
	}
	self, err := Self(ctx, api)
	if err != nil {
		return State{}, err
	}
	return Of(lease, self.CreationTimestamp.Time), nil
}

// Self is who the API server takes us for; its creationTimestamp is the API server's time. Everybody may ask.
func Self(ctx context.Context, api kubernetes.Interface) (*authenticationv1.SelfSubjectReview, error) {
	self, err := api.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its time: %w", err)
	}
	return self, nil
}
