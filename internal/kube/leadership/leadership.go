// Package leadership determines whether a process is the leader: State from the lease and the API server's clock, for
// observers, and Tenure from the leader's own clock, for the leader itself.
package leadership

import (
	"context"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The default leases of the controllers, with and without a cloud.
const (
	Namespace   = metav1.NamespaceSystem
	CloudLease  = "cloud-controller-manager"
	PolicyLease = "quaymaster-policy-controller"
)

// State is the state of a lease.
type State struct {
	// Holder is the identity of the holder; empty if the lease has no holder.
	Holder string
	// Age is the time since the lease was renewed.
	Age time.Duration
	// Held is true if the holder is still the leader because it renewed the lease within its duration.
	Held bool
}

// Of returns the state of a lease, which may be nil, at a time of the API server's clock.
func Of(lease *coordinationv1.Lease, now time.Time) State {
	if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" ||
		lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return State{}
	}
	s := State{Holder: *lease.Spec.HolderIdentity, Age: now.Sub(renewed(lease))}
	s.Held = s.Age <= time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second
	return s
}

// renewed returns when the holder has renewed the lease: by the API server's clock if it has noted that, because the clock
// of the holder may be wrong.
func renewed(lease *coordinationv1.Lease) time.Time {
	var noted time.Time
	for _, entry := range lease.ManagedFields {
		if entry.Time == nil || entry.FieldsV1 == nil || !strings.Contains(entry.FieldsV1.GetRawString(), `"f:renewTime"`) {
			continue
		}
		if entry.Time.After(noted) {
			noted = entry.Time.Time
		}
	}
	if noted.IsZero() {
		return lease.Spec.RenewTime.Time
	}
	return noted
}

// Read returns the state of a lease by the API server's clock, because the clock of this machine may be wrong.
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

// Self returns the user that the API server authenticates us as; its creationTimestamp is the API server's time. It
// needs no special rights.
func Self(ctx context.Context, api kubernetes.Interface) (*authenticationv1.SelfSubjectReview, error) {
	reviews := api.AuthenticationV1().SelfSubjectReviews()
	self, err := reviews.Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("get the time of the API server: %w", err)
	}
	return self, nil
}
