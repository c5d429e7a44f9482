package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/contact"
)

// cloud checks that the cloud answers, from two sides: the controllers, whose leader records it in the cluster, and this
// machine, which may be in another network. What the controllers say decides.
func (e *examination) cloud(ctx context.Context) Result {
	if e.Cloud == nil && e.config.config == nil {
		return skip("%s", cmp.Or(e.config.missing, "the cloud config of the release is not known"))
	}
	return combine(e.inside(ctx), e.outside(ctx))
}

// view is what the controllers say about the cloud.
type view struct {
	record *contact.Record
	// unknown is why there is no record; empty if there is one.
	unknown string
	// age is the time since the record was changed.
	age time.Duration
}

// inside reads what the leader of the controllers has recorded.
func (e *examination) inside(ctx context.Context) view {
	role := e.release.controllers
	switch {
	case role == nil:
		return view{unknown: "the release does not include controllers"}
	case e.release.lease == nil && role.elects():
		return view{unknown: "none of them is the leader"}
	case !role.elects() && role.template != nil && role.ready == 0:
		return view{unknown: "none of their pods is ready"}
	}
	namespace, name := role.leaseName()
	cm, err := e.API.CoreV1().ConfigMaps(namespace).Get(ctx, contact.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return view{unknown: "they have not recorded it yet"}
	}
	if err != nil {
		return view{unknown: fmt.Sprintf("cannot read ConfigMap %s/%s: %v", namespace, contact.ConfigMap, err)}
	}
	r, err := contact.Read(cm, name)
	switch {
	case err != nil:
		return view{unknown: err.Error()}
	case r == nil, role.elects() && (r.Epoch == nil || *r.Epoch != e.release.lease.epoch):
		return view{unknown: "the leader has not recorded it yet"}
	}
	return view{record: r, age: e.now().Sub(r.Since).Round(time.Second)}
}

// outside asks the cloud from this machine: with the token of the cloud config that was given, or without a token at the
// endpoint of the installed one, because the token is the controllers' own.
func (e *examination) outside(ctx context.Context) Result {
	if e.Cloud != nil {
		return e.asked(ctx)
	}
	endpoint := e.config.config.Endpoint
	if e.Reach == nil {
		return skip("this machine was not asked")
	}
	if err := e.Reach(ctx, endpoint, e.config.ca); err != nil {
		return fail("check that the API of the cloud runs, and the network between this machine and "+endpoint,
			"no response of %s: %v", endpoint, err)
	}
	return ok("%s answers", endpoint)
}

// combine returns the result of the check from what both sides say.
func combine(inside view, outside Result) Result {
	here := "; asked from this machine: " + outside.Found
	r := inside.record
	switch {
	case r == nil && outside.Level == Skip:
		return warn("see the checks release and controllers", "whether the cloud answers the controllers is unknown: %s",
			inside.unknown)
	case r == nil:
		outside.Found += "; whether it answers the controllers is unknown: " + inside.unknown
		return outside
	case r.State == contact.RejectsToken:
		return fail("write a valid token to the Secret of cloud.tokenSecret; the controllers read it again at once",
			"%s has rejected the token of the controllers for %s: %s", r.Endpoint, inside.age, r.Message)
	case r.State == contact.Answers && outside.Level == Fail:
		return ok("%s has answered the controllers for %s%s", r.Endpoint, inside.age, here)
	case r.State == contact.Answers && outside.Level == Warn:
		outside.Found = "the cloud answers the controllers" + here
		return outside
	case r.State == contact.Answers && outside.Level == Skip:
		return ok("%s answers the controllers", r.Endpoint)
	case r.State == contact.Answers:
		return ok("%s; it also answers the controllers", outside.Found)
	}
	remedy := "check that the API of the cloud runs at " + r.Endpoint
	if outside.Level == OK || outside.Level == Warn {
		remedy = "check DNS, routes, firewalls and proxies between the Nodes of the controllers and " + r.Endpoint +
			", which answers this machine"
	}
	return fail(remedy, "%s has not answered the controllers for %s: %s%s", r.Endpoint, inside.age, r.Message, here)
}

// asked checks that the cloud responds to calls from this machine with the token of the cloud config.
func (e *examination) asked(ctx context.Context) Result {
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
	if known := e.knownCloud(ctx); known != "" && known != meta.ID {
		return fail("correct endpoint in the cloud config; if the cloud was replaced, run quayctl takeover",
			"the cloud is %s, but that of the cluster is %s: the controllers neither read nor write there", meta.ID, known)
	}
	if by := e.otherHolder(ctx); by != "" {
		return warn("the controllers of this cluster write nothing to the cloud; if they are to, run quayctl takeover",
			"API %s responds; another cluster holds the cluster UID: %s", meta.APIVersion, by)
	}
	return ok("API %s responds", meta.APIVersion)
}

// knownCloud returns the id of the cluster's cloud, or an empty string if that is unknown: the controllers report the same.
func (e *examination) knownCloud(ctx context.Context) string {
	if e.release.controllers == nil {
		return ""
	}
	namespace, _ := e.release.controllers.leaseName()
	id, err := contact.Memory{Client: e.API, Namespace: namespace}.CloudID(ctx)
	if err != nil {
		return ""
	}
	return id
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
