// Package cloud checks the cloud and what the controllers do with it: whether it answers, the machines of Nodes, the load
// balancers of Services and those without a Service, and brakes.
package cloud

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/internal/tool/doctor/release"
)

// Client is the part of the cloud's API that the checks use.
type Client interface {
	// Meta describes the cloud; it is also the cheapest call that checks the token.
	Meta(ctx context.Context) (*cloudv1.Meta, error)
	// Holder reads which cluster may write in the name of a cluster UID.
	Holder(ctx context.Context, clusterUID string) (*cloudv1.ClusterHolder, error)
}

// Checks are the checks of the cloud.
type Checks struct {
	*release.Release
	// Client is that of the cloud config that was given; nil without one.
	Client Client
	// ListOrphans describes the load balancers of the cluster that no Service uses; nil without a cloud config.
	ListOrphans func(ctx context.Context) ([]string, error)
	// Reach asks the cloud at an endpoint for an answer, without credentials; it may be nil.
	Reach func(ctx context.Context, endpoint string, authorities []byte) error
	// InstanceID parses the provider ID of a Node. The error says why it is not one of the cloud.
	InstanceID func(providerID string) (string, error)
	// Identity returns what distinguishes the cluster from others with its UID; it may be nil.
	Identity func() (clusterca.Identity, error)
}

// Answers checks that the cloud answers, from two sides: the controllers, whose leader records it in the cluster, and this
// machine, which may be in another network. What the controllers say decides.
func (c *Checks) Answers(ctx context.Context) doctor.Result {
	if c.Client == nil && c.Config == nil {
		return doctor.Skipped("%s", cmp.Or(c.NoConfig, "the cloud config of the release is not known"))
	}
	return combine(c.inside(ctx), c.outside(ctx))
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
func (c *Checks) inside(ctx context.Context) view {
	role := c.Controllers
	switch {
	case role == nil:
		return view{unknown: "the release does not include controllers"}
	case c.Epoch == nil && role.Elects():
		return view{unknown: "none of them is the leader"}
	case !role.Elects() && role.Template != nil && role.Ready == 0:
		return view{unknown: "none of their pods is ready"}
	}
	namespace, name := role.LeaseName()
	cm, err := c.API.CoreV1().ConfigMaps(namespace).Get(ctx, contact.ConfigMap, metav1.GetOptions{})
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
	case r == nil, role.Elects() && !ptr.Equal(r.Epoch, c.Epoch):
		return view{unknown: "the leader has not recorded it yet"}
	}
	return view{record: r, age: c.Now().Sub(r.Since).Round(time.Second)}
}

// outside asks the cloud from this machine: with the token of the cloud config that was given, or without a token at the
// endpoint of the installed one, because the token is the controllers' own.
func (c *Checks) outside(ctx context.Context) doctor.Result {
	if c.Client != nil {
		return c.asked(ctx)
	}
	endpoint := c.Config.Endpoint
	if c.Reach == nil {
		return doctor.Skipped("this machine was not asked")
	}
	if err := c.Reach(ctx, endpoint, c.CA); err != nil {
		return doctor.Failed("check that the API of the cloud runs, and the network between this machine and "+endpoint,
			"no response of %s: %v", endpoint, err)
	}
	return doctor.Passed("%s answers", endpoint)
}

// combine returns the result of the check from what both sides say.
func combine(inside view, outside doctor.Result) doctor.Result {
	here := "; asked from this machine: " + outside.Found
	r := inside.record
	switch {
	case r == nil && outside.Level == doctor.Skip:
		return doctor.Warned("see the checks release and controllers", "whether the cloud answers the controllers is unknown: %s",
			inside.unknown)
	case r == nil:
		outside.Found += "; whether it answers the controllers is unknown: " + inside.unknown
		return outside
	case r.State == contact.RejectsToken:
		return doctor.Failed("write a valid token to the Secret of cloud.tokenSecret; the controllers read it again at once",
			"%s has rejected the token of the controllers for %s: %s", r.Endpoint, inside.age, r.Message)
	case r.State == contact.Unidentified:
		return doctor.Failed("fix what the message names", "the controllers have asked nothing of %s for %s, except which cloud it is: %s",
			r.Endpoint, inside.age, r.Message)
	case r.State == contact.Answers && outside.Level == doctor.Fail:
		return doctor.Passed("%s has answered the controllers for %s%s", r.Endpoint, inside.age, here)
	case r.State == contact.Answers && outside.Level == doctor.Warn:
		outside.Found = "the cloud answers the controllers" + here
		return outside
	case r.State == contact.Answers && outside.Level == doctor.Skip:
		return doctor.Passed("%s answers the controllers", r.Endpoint)
	case r.State == contact.Answers:
		return doctor.Passed("%s; it also answers the controllers", outside.Found)
	}
	remedy := "check that the API of the cloud runs at " + r.Endpoint
	if outside.Level == doctor.OK || outside.Level == doctor.Warn {
		remedy = "check DNS, routes, firewalls and proxies between the Nodes of the controllers and " + r.Endpoint +
			", which answers this machine"
	}
	return doctor.Failed(remedy, "%s has not answered the controllers for %s: %s%s", r.Endpoint, inside.age, r.Message, here)
}

// asked checks that the cloud responds to calls from this machine with the token of the cloud config.
func (c *Checks) asked(ctx context.Context) doctor.Result {
	before := c.Clock.Now()
	meta, err := c.Client.Meta(ctx)
	if cloudapi.HasCode(err, cloudv1.CodeUnauthenticated) {
		return doctor.Failed("write a valid token to the tokenFile of the cloud config", "the cloud rejects the token")
	}
	if err != nil {
		return doctor.Failed("correct endpoint in the cloud config, or check the network between this machine and the cloud",
			"no response: %v", err)
	}
	if meta.Status != cloudv1.StatusOK {
		return doctor.Warned("wait until the cloud has recovered; until then the controllers keep the current state",
			"API %s is %s", meta.APIVersion, meta.Status)
	}
	if _, problem := c.Skew(meta.ServerTime, before); problem != "" {
		return doctor.Warned("synchronize the clocks with NTP", "API %s; its clock is %s", meta.APIVersion, problem)
	}
	if known := c.knownCloud(ctx); known != "" && known != meta.ID {
		return doctor.Failed("correct endpoint in the cloud config; if the cloud was replaced, run quayctl takeover",
			"the cloud is %s, but that of the cluster is %s: the controllers neither read nor write there", meta.ID, known)
	}
	if by := c.otherHolder(ctx); by != "" {
		return doctor.Warned("the controllers of this cluster write nothing to the cloud; if they are to, run quayctl takeover",
			"API %s responds; another cluster holds the cluster UID: %s", meta.APIVersion, by)
	}
	return doctor.Passed("API %s responds", meta.APIVersion)
}

// knownCloud returns the id of the cluster's cloud, or an empty string if that is unknown: the controllers report the same.
func (c *Checks) knownCloud(ctx context.Context) string {
	if c.Controllers == nil {
		return ""
	}
	namespace, _ := c.Controllers.LeaseName()
	id, err := contact.Memory{Client: c.API, Namespace: namespace}.CloudID(ctx)
	if err != nil {
		return ""
	}
	return id
}

// otherHolder describes the holder of the cluster's UID, if it is another cluster. It returns an empty string if that
// is unknown: the controllers report the same.
func (c *Checks) otherHolder(ctx context.Context) string {
	if c.Identity == nil {
		return ""
	}
	system, err := c.API.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	held, err := c.Client.Holder(ctx, string(system.UID))
	if err != nil {
		return ""
	}
	own, err := c.Identity()
	if err != nil || slices.Contains(held.Fingerprints, own.Proven) {
		return ""
	}
	return fmt.Sprintf("%q with the fingerprint %s, not %s", held.Name, strings.Join(held.Fingerprints, ", "), own.Proven)
}
