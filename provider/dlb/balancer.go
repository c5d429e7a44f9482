// Package dlb reconciles the cloud's load balancers with Services. tree.go decides what a load balancer is to be. The
// other files decide how to get there: with as few requests as possible, and by writes that require the owner's tags,
// the revision and, for creations, an idempotency key.
package dlb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/cloudapi"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/review"
	"quaymaster.dev/provider/ownership"
)

const (
	// defaultWait limits how long one call waits for a job of the cloud and for the first sync of a node group: other
	// Services wait in the queue.
	defaultWait = 10 * time.Second
	// retryAfter is the delay before the next try after such a wait timed out.
	retryAfter = 2 * time.Second
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
	// Cluster identifies the load balancers of this cluster.
	Cluster *ownership.Cluster
	// ClusterID is the prefix of the names of load balancers.
	ClusterID string
	// Network places new load balancers.
	Network Network
	// LoadBalancerClass is the class of the Services that are ours. Services without a class are ours, too.
	LoadBalancerClass string
	// KubeProxyHealthCheckPort is the port at which nodes report whether they accept traffic; it defaults to that of
	// kube-proxy.
	KubeProxyHealthCheckPort int32
	// NodeGroups finds the groups that pools refer to.
	NodeGroups NodeGroups
	// Policies returns the defaults and rules of namespaces; if nil, there are none.
	Policies Policies
	// Services writes the conditions of Services.
	Services typedcorev1.ServicesGetter
	// ServiceLister lists the Services for Metrics; nothing else needs it.
	ServiceLister corelisters.ServiceLister
	// Recorder emits Events about Services.
	Recorder record.EventRecorder
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
	// Wait limits how long one call waits for the cloud; it defaults to ten seconds.
	Wait time.Duration
}

// Balancer implements cloudprovider.LoadBalancer for mycloud. Tags, not names, identify the load balancer of a Service.
type Balancer struct {
	cloud      *cloudapi.Client
	cluster    *ownership.Cluster
	clusterID  string
	network    Network
	reviewer   review.Reviewer
	policies   Policies
	groups     NodeGroups
	conditions conditions
	recorder   record.EventRecorder
	overview   *overview
	wait       time.Duration

	kubeProxyPort int32
}

var _ cloudprovider.LoadBalancer = (*Balancer)(nil)

// New returns a Balancer. It does no I/O.
func New(o Options) *Balancer {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Wait == 0 {
		o.Wait = defaultWait
	}
	if o.KubeProxyHealthCheckPort == 0 {
		o.KubeProxyHealthCheckPort = loadbalancer.DefaultKubeProxyHealthCheckPort
	}
	reviewer := review.Own(o.LoadBalancerClass)
	return &Balancer{
		cloud: o.Cloud, cluster: o.Cluster, clusterID: o.ClusterID, network: o.Network,
		kubeProxyPort: o.KubeProxyHealthCheckPort,
		reviewer:      reviewer, policies: o.Policies, groups: o.NodeGroups,
		conditions: conditions{services: o.Services, clock: o.Clock}, recorder: o.Recorder, wait: o.Wait,
		overview: &overview{services: o.ServiceLister, reviewer: reviewer, clock: o.Clock, failing: map[types.UID]time.Time{}},
	}
}

// Metrics returns the collector that counts Services by the state of their load balancers.
func (b *Balancer) Metrics() prometheus.Collector { return b.overview }

// GetLoadBalancerName returns the plain name. If that name is taken, the load balancer's name has a suffix.
func (b *Balancer) GetLoadBalancerName(_ context.Context, _ string, svc *corev1.Service) string {
	plain, _ := names(b.clusterID, "", svc)
	return plain
}

// GetLoadBalancer returns the status that the Service publishes of its load balancer, and whether there is one. For a
// Service that no longer wants a load balancer and never got one, the service controller calls nothing else, so this
// clears the condition.
func (b *Balancer) GetLoadBalancer(
	ctx context.Context, _ string, svc *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	lb, err := b.find(ctx, svc)
	if err != nil {
		b.overview.note(svc, err)
		return nil, false, explain(err)
	}
	if lb == nil {
		if svc.DeletionTimestamp == nil && !b.reviewer.Owned(svc) {
			err = b.conditions.clear(ctx, svc)
		}
		return nil, false, err
	}
	asked, err := b.read(ctx, svc)
	if err != nil {
		return nil, true, err
	}
	if asked.desired == nil {
		return &svc.Status.LoadBalancer, true, nil
	}
	published, err := status(asked.desired, lb)
	if err != nil {
		return &corev1.LoadBalancerStatus{}, true, nil //nolint:nilerr // it exists, with nothing to publish yet
	}
	return published, true, nil
}

// UpdateLoadBalancer does nothing: pools refer to node groups, whose members the ingress-node controller writes.
func (b *Balancer) UpdateLoadBalancer(context.Context, string, *corev1.Service, []*corev1.Node) error {
	return cloudprovider.ImplementedElsewhere
}

// find returns the load balancer with the Service's tags, or nil. Several are an error because none may be chosen
// arbitrarily.
func (b *Balancer) find(ctx context.Context, svc *corev1.Service) (*cloudv1.LoadBalancer, error) {
	tags, err := b.cluster.ServiceTags(ctx, svc)
	if err != nil {
		return nil, err
	}
	list, err := b.cloud.ListLoadBalancers(ctx, cloudapi.ListOptions{Tags: tags})
	if err != nil {
		return nil, fmt.Errorf("find load balancer: %w", err)
	}
	switch len(list.Items) {
	case 0:
		return nil, nil
	case 1:
		return &list.Items[0], nil
	}
	ids := make([]string, len(list.Items))
	for i := range list.Items {
		ids[i] = list.Items[i].ID
	}
	return nil, fmt.Errorf("load balancers %s all have the tags of this service; remove the tag %s from all but one",
		strings.Join(ids, ", "), ownership.ServiceUID)
}

// finish waits for the job of a write and reads the result.
func (b *Balancer) finish(ctx context.Context, lb *cloudv1.LoadBalancer, job string) (*cloudv1.LoadBalancer, error) {
	if job == "" {
		return lb, nil
	}
	err := b.waitJob(ctx, job)
	if _, retry := errors.AsType[*cloudproviderapi.RetryError](err); retry {
		return nil, pending(lb)
	}
	if err != nil {
		return nil, err
	}
	return b.cloud.LoadBalancer(ctx, lb.ID, cloudapi.ReadOptions{})
}

func (b *Balancer) waitJob(ctx context.Context, job string) error {
	waiting, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	err := b.cloud.WaitJob(waiting, job)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return cloudproviderapi.NewRetryError(fmt.Sprintf("job %s of the cloud is still running", job), retryAfter)
	}
	return err
}

// status returns what the Service publishes of its load balancer: an address of every family, or the hostname. It fails
// if an address is not assigned or not served yet.
func status(d *loadbalancer.Desired, lb *cloudv1.LoadBalancer) (*corev1.LoadBalancerStatus, error) {
	if lb.ProvisioningState == cloudv1.ProvisioningPendingCreate {
		return nil, fmt.Errorf("load balancer %s is still being created", lb.ID)
	}
	if d.Hostname != "" {
		return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{Hostname: d.Hostname}}}, nil
	}
	mode := corev1.LoadBalancerIPModeVIP
	if d.IPMode == "proxy" {
		mode = corev1.LoadBalancerIPModeProxy
	}
	published := &corev1.LoadBalancerStatus{}
	for _, family := range d.Families {
		at := slices.IndexFunc(lb.VIPs, func(vip cloudv1.VIP) bool { return vip.Family == family && vip.Address != "" })
		if at < 0 {
			return nil, fmt.Errorf("load balancer %s has no %s address yet", lb.ID, family)
		}
		published.Ingress = append(published.Ingress, corev1.LoadBalancerIngress{IP: lb.VIPs[at].Address, IPMode: &mode})
	}
	return published, nil
}
