package doctor

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/leadership"
)

// held is the lease of a leader.
type held struct {
	// epoch is its number of transitions, which increases with every leader.
	epoch int64
}

// leader checks that a replica of the controllers leads and that the others run; if not, why their pods do not.
func (e *examination) leader(ctx context.Context) Result {
	role := e.release.controllers
	if role == nil {
		return skip("the release does not include controllers")
	}
	if !role.elects() {
		return e.running(ctx, role, "the controllers run without leader election")
	}
	namespace, name := role.leaseName()
	lease, err := e.API.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return unread("lease "+namespace+"/"+name, err)
	}
	if apierrors.IsNotFound(err) {
		lease = nil
	}
	state := leadership.Of(lease, e.now())
	if state.Held {
		e.release.lease = &held{}
		if lease.Spec.LeaseTransitions != nil {
			e.release.lease.epoch = int64(*lease.Spec.LeaseTransitions)
		}
		r := e.running(ctx, role, fmt.Sprintf("%s is the leader and holds lease %s/%s", state.Holder, namespace, name))
		if r.Level == Fail {
			r.Level = Warn // whatever leads is not a pod of this release, or was ready a moment ago
		}
		return r
	}
	found := fmt.Sprintf("no controllers hold lease %s/%s, so nothing is reconciled", namespace, name)
	if state.Holder != "" {
		found = fmt.Sprintf("%s holds lease %s/%s but last renewed it %s ago, so nothing is reconciled",
			state.Holder, namespace, name, state.Age.Round(time.Second))
	}
	if role.template == nil {
		return warn("check that the controllers are running; this release does not deploy them", "%s", found)
	}
	r := e.running(ctx, role, found)
	if r.Level == OK {
		r.Remedy = "see the log of the controllers for why they cannot write the lease: " + e.logCommand(controllersComponent)
	}
	r.Level = Fail
	return r
}

// elects reports whether the controllers elect a leader.
func (r *role) elects() bool { return r.argumentOr("--leader-elect", "true") != "false" }

// leaseName returns the namespace and name of the controllers' lease.
func (r *role) leaseName() (namespace, name string) {
	lease := leadership.CloudLease
	if r.withoutCloud() {
		lease = leadership.PolicyLease
	}
	return r.argumentOr("--leader-elect-resource-namespace", leadership.Namespace),
		r.argumentOr("--leader-elect-resource-name", lease)
}

// withoutCloud reports whether the controllers maintain only the status of policies.
func (r *role) withoutCloud() bool {
	value, given := r.argument("--without-cloud")
	return given && value != "false"
}
