// Package dlb reconciles the cloud's load balancers with Services. Decisions do no I/O: package tree decides what a load
// balancer is to be, decide.go what to do next, outcome.go what to say about it. The other files find out and act: with as
// few requests as possible, and by writes that require the owner's tags, the revision and, for creations, an idempotency
// key.
package dlb

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	corelisters "k8s.io/client-go/listers/core/v1"
	events "k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/provider/dlb/census"
	"quaymaster.dev/provider/dlb/cloudstate"
	"quaymaster.dev/provider/dlb/overview"
	"quaymaster.dev/provider/dlb/pause"
	"quaymaster.dev/provider/dlb/record"
	"quaymaster.dev/provider/dlb/tree"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
)

const (
	// groupWait limits how long one call waits for the first sync of a node group: other Services wait in the queue.
	groupWait = 100 * time.Millisecond
	// releasePeriod is how often it is looked whether the brake can be released.
	releasePeriod = 5 * time.Minute
	// absentPeriod is the time between two questions about an absent load balancer, and how often it is looked whether an
	// operator has decided.
	absentPeriod = 30 * time.Second
	// refusedPeriod is the first pause after a write that the cloud has rejected, or a load balancer that is not ours.
	refusedPeriod = time.Minute
	// repairPeriod is the first pause after an attempt to repair a load balancer.
	repairPeriod = 30 * time.Second
	// auditPeriod is how often it is looked whether new load balancers may be created, without a call of the cloud.
	auditPeriod = 5 * time.Second
)

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
	Network tree.Network
	// LoadBalancerClass is the class of the Services that are ours; with DefaultClass, those without a class are ours, too.
	LoadBalancerClass string
	DefaultClass      bool
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
	Brake census.Brake
	// Recorder emits Events about Services.
	Recorder events.EventRecorder
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Configure returns the options with what the cloud config decides.
func (o Options) Configure(cfg config.Config) Options {
	o.ClusterID, o.LoadBalancerClass, o.DefaultClass = cfg.ClusterID, cfg.LoadBalancerClass, cfg.DefaultClass
	o.Network = tree.Network{VPCID: cfg.Network.VPCID, SubnetIDs: cfg.Network.SubnetIDs}
	o.KubeProxyHealthCheckPort = cfg.KubeProxyHealthCheckPort
	return o
}

// Balancer implements service.Balancers for mycloud. Tags, not names, identify the load balancer of a Service.
type Balancer struct {
	o        Options
	reviewer review.Reviewer
	overview *overview.Overview
	census   *census.Census
	state    *cloudstate.Checker

	// missing and disowned are the load balancers that the cloud does not have, or that are not ours; refused are writes
	// that the cloud has rejected, and repairs attempts to repair a load balancer.
	missing, disowned, refused, repairs *pause.Pauses
}

var _ service.Balancers = (*Balancer)(nil)

// New returns a Balancer. It does no I/O.
func New(o Options) *Balancer {
	o.Clock = cmp.Or[clock.PassiveClock](o.Clock, clock.RealClock{})
	o.KubeProxyHealthCheckPort = cmp.Or(o.KubeProxyHealthCheckPort, loadbalancer.DefaultKubeProxyHealthCheckPort)
	o.Drift = cmp.Or(o.Drift, DriftRepair)
	b := &Balancer{
		o: o, reviewer: review.Own(o.LoadBalancerClass, o.DefaultClass), state: &cloudstate.Checker{Cloud: o.Cloud, Clock: o.Clock},
		missing: pause.New(absentPeriod, pause.Answers), disowned: pause.New(refusedPeriod, 1),
		refused: pause.New(refusedPeriod, 1), repairs: pause.New(repairPeriod, 1),
	}
	b.overview = overview.New(overview.Options{
		Services: o.Services, Owned: b.Owned, Refusals: refusalReasons, Degradations: degradedReasons, Clock: o.Clock,
	})
	b.census = census.New(census.Options{
		Mirror: o.Mirror, Services: o.Services, Owned: b.Owned, Brake: o.Brake, Clock: o.Clock,
		Hopeless: func(uid types.UID) bool { return b.missing.Settled(uid) || b.disowned.Noted(uid) },
	})
	return b
}

// Run releases the brake when all load balancers are back, until ctx ends: then no Service asks about it.
func (b *Balancer) Run(ctx context.Context) {
	wait.UntilWithContext(ctx, b.census.Settle, releasePeriod)
}

// Audit makes new load balancers wait until it is known which are missing: the cloud may have lost some.
func (b *Balancer) Audit(*cloudv1.Meta) {
	b.missing.Clear()
	b.census.Audit()
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
	record   *record.Record
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

// handle identifies the load balancer for users.
func (r *round) handle() string { return r.record.Handle(r.svc) }

// wait ends the call without an error: something is not finished.
func (r *round) wait(after time.Duration, what string) error {
	r.waiting, r.after = what, after
	return nil
}

// Ensure implements service.Balancers. If the Service's annotations are invalid, the load balancer is kept as last
// configured.
func (b *Balancer) Ensure(ctx context.Context, svc *corev1.Service) (service.State, error) {
	return b.call(ctx, svc, false)
}

// Remove implements service.Balancers. Annotations other than those about the end may be invalid: they no longer
// matter.
func (b *Balancer) Remove(ctx context.Context, svc *corev1.Service) (service.State, error) {
	return b.call(ctx, svc, true)
}

func (b *Balancer) call(ctx context.Context, svc *corev1.Service, removing bool) (service.State, error) {
	b.census.Begin()
	ctx = b.o.Cloud.WithinState(cloudapi.WithFlow(ctx, svc.Namespace))
	r := &round{svc: svc, record: record.Of(svc), removing: removing}
	var err error
	gone := false
	if r.tags, err = b.o.Cluster.ServiceTags(ctx, svc); err == nil {
		if removing {
			gone, err = b.remove(ctx, r)
		} else {
			err = b.ensure(ctx, r)
		}
	}
	err = explain(err)
	b.overview.Note(svc, err)
	if gone {
		for _, p := range []*pause.Pauses{b.missing, b.disowned, b.refused, b.repairs} {
			p.Forget(svc.UID)
		}
		return service.State{Gone: true}, nil
	}
	return b.outcome(r, err), err
}
