// Package dlb reconciles the cloud's load balancers with Services. Three files decide and do no I/O: tree.go what a
// load balancer is to be, decide.go what to do next, outcome.go what to say about it. The other files find out and act:
// with as few requests as possible, and by writes that require the owner's tags, the revision and, for creations, an
// idempotency key.
package dlb

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	events "k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
)

// groupWait limits how long one call waits for the first sync of a node group: other Services wait in the queue.
const groupWait = 100 * time.Millisecond

// NodeGroups finds the groups of ingress nodes that pools refer to.
type NodeGroups interface {
	// ID returns the id of a group in the cloud. It waits until the group's members were synced for the first time.
	ID(ctx context.Context, group string) (string, error)
}

// Options holds the dependencies of a Balancer.
type Options struct {
	// Cloud is the client of the cloud's API.
	Cloud *cloudapi.Client
	// Mirror is the copy of the cloud's load balancers. The caller runs it.
	Mirror *mirror.Mirror
	// Cluster identifies the load balancers of this cluster.
	Cluster *ownership.Cluster
	// ClusterID is the prefix of the names of load balancers.
	ClusterID string
	// Network places new load balancers.
	Network Network
	// LoadBalancerClass is the class of the Services that are ours. Services without a class are ours, too, unless
	// ClassOnly is set.
	LoadBalancerClass string
	ClassOnly         bool
	// Drift says what to do about a load balancer that differs from what its Service asks for, although the Service has
	// not changed; it defaults to DriftRepair.
	Drift Drift
	// KubeProxyHealthCheckPort is the port at which nodes report whether they accept traffic; it defaults to that of
	// kube-proxy.
	KubeProxyHealthCheckPort int32
	// NodeGroups finds the groups that pools refer to.
	NodeGroups NodeGroups
	// Policies returns the defaults and rules of namespaces; if nil, there are none.
	Policies Policies
	// Services lists the Services of the cluster.
	Services corelisters.ServiceLister
	// Brake stops the replacement of load balancers while many are missing; if nil, this is not recorded, and no operator
	// can resume it.
	Brake Brake
	// Recorder emits Events about Services.
	Recorder events.EventRecorder
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Configure returns the options with what the cloud config decides.
func (o Options) Configure(cfg config.Config) Options {
	o.ClusterID, o.LoadBalancerClass, o.ClassOnly = cfg.ClusterID, cfg.LoadBalancerClass, !cfg.DefaultClass
	o.Network = Network{VPCID: cfg.Network.VPCID, SubnetIDs: cfg.Network.SubnetIDs}
	o.KubeProxyHealthCheckPort = cfg.KubeProxyHealthCheckPort
	return o
}

// Balancer implements service.Balancers for mycloud. Tags, not names, identify the load balancer of a Service.
type Balancer struct {
	cloud     *cloudapi.Client
	mirror    *mirror.Mirror
	cluster   *ownership.Cluster
	clusterID string
	network   Network
	reviewer  review.Reviewer
	policies  Policies
	groups    NodeGroups
	services  corelisters.ServiceLister
	recorder  events.EventRecorder
	clock     clock.PassiveClock
	overview  *overview
	census    census
	state     state
	brake     Brake
	drift     Drift

	// missing and disowned are the load balancers that the cloud does not have, or that are not ours; refused are writes
	// that the cloud has rejected, and repairs attempts to repair a load balancer.
	missing, disowned, refused, repairs *pauses

	kubeProxyPort int32
}

var _ service.Balancers = (*Balancer)(nil)

// New returns a Balancer. It does no I/O.
func New(o Options) *Balancer {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.KubeProxyHealthCheckPort == 0 {
		o.KubeProxyHealthCheckPort = loadbalancer.DefaultKubeProxyHealthCheckPort
	}
	o.Drift = cmp.Or(o.Drift, DriftRepair)
	reviewer := review.Own(o.LoadBalancerClass, !o.ClassOnly)
	return &Balancer{
		cloud: o.Cloud, mirror: o.Mirror, cluster: o.Cluster, clusterID: o.ClusterID, network: o.Network,
		reviewer: reviewer, policies: o.Policies, groups: o.NodeGroups, services: o.Services, recorder: o.Recorder,
		clock: o.Clock, kubeProxyPort: o.KubeProxyHealthCheckPort, brake: o.Brake, drift: o.Drift,
		missing: newPauses(absentPeriod, absentAnswers), disowned: newPauses(refusedPeriod, 1),
		refused: newPauses(refusedPeriod, 1), repairs: newPauses(repairPeriod, 1),
		overview: &overview{services: o.Services, reviewer: reviewer, clock: o.Clock, failing: map[types.UID]time.Time{}},
	}
}

// Metrics returns the collector that counts Services by the state of their load balancers.
func (b *Balancer) Metrics() prometheus.Collector { return b.overview }

// Owned implements service.Balancers.
func (b *Balancer) Owned(svc *corev1.Service) bool { return b.reviewer.Owned(svc) }

// round is one call for a Service, and what it has found out.
type round struct {
	svc *corev1.Service
	// tags are those of the Service's load balancer.
	tags map[string]string
	// record is the Service's at first; the call updates it.
	record   record
	removing bool
	lb       *cloudv1.LoadBalancer
	desired  *loadbalancer.Desired
	// waiting is what the call waits for, or empty; after is when to look again.
	waiting string
	after   time.Duration
	// withdrawn is true if what the Service publishes is to be removed.
	withdrawn bool
	// drifted says how the load balancer differs from what an unchanged Service asks for, if that is only reported.
	drifted string
}

func (b *Balancer) begin(ctx context.Context, svc *corev1.Service) (*round, error) {
	b.census.begin()
	r := &round{svc: svc, record: recordOf(svc)}
	var err error
	r.tags, err = b.cluster.ServiceTags(ctx, svc)
	return r, err
}

// handle identifies the load balancer for users: its ID, or a published address if there is no record.
func (r *round) handle() string { return handleOf(r.svc, r.record) }

func handleOf(svc *corev1.Service, rec record) string {
	if rec.ID != "" {
		return rec.ID
	}
	if published := svc.Status.LoadBalancer.Ingress; len(published) > 0 {
		return cmp.Or(published[0].IP, published[0].Hostname)
	}
	return ""
}

// abandons reports whether the user of a Service has given up its load balancer and the address.
func abandons(svc *corev1.Service) bool {
	given := svc.Annotations[AnnotationAbandon]
	return given != "" && given == handleOf(svc, recordOf(svc))
}

// wait ends the call without an error: something is not finished.
func (r *round) wait(after time.Duration, what string) error {
	r.waiting, r.after = what, after
	return nil
}

// Ensure implements service.Balancers. If the Service's annotations are invalid, the load balancer is kept as last
// configured.
func (b *Balancer) Ensure(ctx context.Context, svc *corev1.Service) (service.State, error) {
	ctx = b.cloud.WithinState(cloudapi.WithFlow(ctx, svc.Namespace))
	r, err := b.begin(ctx, svc)
	if err == nil {
		err = b.ensure(ctx, r)
	}
	err = explain(err)
	b.overview.note(svc, err)
	return b.outcome(r, err), err
}

// Remove implements service.Balancers. Annotations other than those about the end may be invalid: they no longer
// matter.
func (b *Balancer) Remove(ctx context.Context, svc *corev1.Service) (service.State, error) {
	ctx = b.cloud.WithinState(cloudapi.WithFlow(ctx, svc.Namespace))
	r, err := b.begin(ctx, svc)
	gone := false
	if err == nil {
		r.removing = true
		gone, err = b.remove(ctx, r)
	}
	err = explain(err)
	b.overview.note(svc, err)
	if gone {
		for _, p := range []*pauses{b.missing, b.disowned, b.refused, b.repairs} {
			p.forget(svc.UID)
		}
		return service.State{Gone: true}, nil
	}
	return b.outcome(r, err), err
}
