package doctor

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/leadership"
	"quaymaster.dev/provider/cloudapi"
)

// leader looks whether controllers are at work.
func (e *examination) leader(ctx context.Context) Result {
	role := e.release.controllers
	if role == nil {
		return skip("the release has no controllers")
	}
	if role.argumentOr("--leader-elect", "true") == "false" {
		return skip("the controllers run without leader election: %s", role.describe())
	}
	namespace := role.argumentOr("--leader-elect-resource-namespace", leadership.Namespace)
	name := role.argumentOr("--leader-elect-resource-name", role.lease())
	lease, err := e.API.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return unread("lease "+namespace+"/"+name, err)
	}
	if apierrors.IsNotFound(err) {
		lease = nil
	}
	state := leadership.Of(lease, e.now())
	if state.Held {
		return ok("%s leads, by lease %s/%s", state.Holder, namespace, name)
	}
	found := "nobody holds the lease " + namespace + "/" + name
	if state.Holder != "" {
		found = fmt.Sprintf("%s holds the lease %s/%s but renewed it %s ago", state.Holder, namespace, name, state.Age.Round(time.Second))
	}
	if role.template == nil {
		return warn("see whether controllers run: the chart runs none here", "%s", found)
	}
	return fail("see kubectl --namespace "+e.Namespace+" describe pods, and the logs of the controllers' pods", "%s; %s", found, role.describe())
}

// lease is the name of the lease without a flag.
func (r *role) lease() string {
	if r.withoutCloud() {
		return leadership.PolicyLease
	}
	return leadership.CloudLease
}

// withoutCloud tells whether the controllers keep the status of policies alone.
func (r *role) withoutCloud() bool {
	value, given := r.argument("--without-cloud")
	return given && value != "false"
}

// cloud looks whether the cloud answers from here, with the token of the cloud config.
func (e *examination) cloud(ctx context.Context) Result {
	if e.Cloud == nil {
		return skip("no --cloud-config says where it is")
	}
	before := e.Clock.Now()
	meta, err := e.Cloud.Meta(ctx)
	if cloudapi.HasCode(err, cloudapi.CodeUnauthenticated) {
		return fail("put a valid token into the file that the cloud config names as tokenFile", "it refuses the token")
	}
	if err != nil {
		return fail("correct endpoint of the cloud config, or see what is between here and the cloud", "it does not answer: %v", err)
	}
	if meta.Status != cloudapi.StatusOK {
		return warn("wait for the cloud's operators; meanwhile the controllers keep what there is", "API %s is %s", meta.APIVersion, meta.Status)
	}
	if d := difference(meta.ServerTime, before, e.Clock.Now()); d.Abs() > clockTolerance {
		return warn("set the clocks by NTP", "API %s; its clock is %s", meta.APIVersion, ahead(d, "this machine's"))
	}
	return ok("API %s answers", meta.APIVersion)
}
