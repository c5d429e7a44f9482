package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/leadership"
)

// leader checks that a controllers replica holds the lease.
func (e *examination) leader(ctx context.Context) Result {
	role := e.release.controllers
	if role == nil {
		return skip("the release does not include controllers")
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
		return ok("%s is the leader and holds lease %s/%s", state.Holder, namespace, name)
	}
	found := fmt.Sprintf("no controllers hold lease %s/%s, so nothing is reconciled", namespace, name)
	if state.Holder != "" {
		found = fmt.Sprintf("%s holds lease %s/%s but last renewed it %s ago, so nothing is reconciled",
			state.Holder, namespace, name, state.Age.Round(time.Second))
	}
	if role.template == nil {
		return warn("check that the controllers are running; this release does not deploy them", "%s", found)
	}
	return fail("run kubectl --namespace "+e.Namespace+" describe pods, and see the logs of the controllers' pods",
		"%s; %s", found, role.describe())
}

// lease returns the default name of the lease.
func (r *role) lease() string {
	if r.withoutCloud() {
		return leadership.PolicyLease
	}
	return leadership.CloudLease
}

// withoutCloud reports whether the controllers maintain only the status of policies.
func (r *role) withoutCloud() bool {
	value, given := r.argument("--without-cloud")
	return given && value != "false"
}

// cloud checks that the cloud responds to calls from this machine with the token of the cloud config.
func (e *examination) cloud(ctx context.Context) Result {
	if e.Cloud == nil {
		return skip("--cloud-config is not set")
	}
	before := e.Clock.Now()
	meta, err := e.Cloud.Meta(ctx)
	if cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
		return fail("write a valid token to the tokenFile of the cloud config", "the cloud rejects the token")
	}
	if err != nil {
		return fail("correct endpoint in the cloud config, or check the network between this machine and the cloud",
			"no response: %v", err)
	}
	if meta.Status != cloudv1.StatusOK {
		return warn("wait until the cloud has recovered; until then the controllers keep the current state",
			"API %s is %s", meta.APIVersion, meta.Status)
	}
	if d := difference(meta.ServerTime, before, e.Clock.Now()); d.Abs() > clockTolerance {
		return warn("synchronize the clocks with NTP", "API %s; its clock is %s", meta.APIVersion,
			ahead(d, "this machine's"))
	}
	if by := e.otherHolder(ctx); by != "" {
		return warn("the controllers of this cluster write nothing to the cloud; if they are to, run quayctl takeover",
			"API %s responds; another cluster holds the cluster UID: %s", meta.APIVersion, by)
	}
	return ok("API %s responds", meta.APIVersion)
}

// otherHolder describes the holder of the cluster's UID, if it is another cluster. It returns an empty string if that
// is unknown: the controllers report the same.
func (e *examination) otherHolder(ctx context.Context) string {
	if e.Identity == nil {
		return ""
	}
	system, err := e.API.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	held, err := e.Cloud.Holder(ctx, string(system.UID), cloudapi.ReadOptions{})
	if err != nil {
		return ""
	}
	own, err := e.Identity()
	if err != nil || slices.Contains(held.Fingerprints, own.Proven) {
		return ""
	}
	return fmt.Sprintf("%q with the fingerprint %s, not %s", held.Name, strings.Join(held.Fingerprints, ", "), own.Proven)
}
