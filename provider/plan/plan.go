// Package plan finds out what the controllers would write to the cloud now. It runs their own decisions once, with a
// client of the cloud that records writes in place of sending them, so that a plan has the very requests that the
// controllers send. It writes nothing, neither to the cloud nor to the API server.
//
// A plan has the next write of each load balancer, node group and route table. What depends on the response to one of
// these, such as the load balancers of a node group that is yet to be created, waits. What the controllers write to the
// API server is not in a plan, nor is what they do only after some time: deleting Nodes, unused node groups and load
// balancers without a Service.
package plan

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/controllers/route"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/nodegroup"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/provider/routetable"
)

// Options holds what a plan depends on.
type Options struct {
	// Cluster reaches the API server. Only reads are sent to it.
	Cluster *rest.Config
	// Cloud reaches the cloud. Only reads and dry runs are sent to it.
	Cloud cloudapi.Options
	// Identity returns what distinguishes the cluster from others with its UID.
	Identity func() (clusterca.Identity, error)
	// Config is the cloud config of the controllers.
	Config config.Config
	// Drift is as for the controllers.
	Drift dlb.Drift
	// Namespace is the namespace of the controllers' lease, which has the record of brakes.
	Namespace string
	// ClusterCIDRs contain the pods of Nodes, as for the controllers. Without any, routes are not planned.
	ClusterCIDRs []netip.Prefix
}

// Plan is what the controllers would write to the cloud now.
type Plan struct {
	Changes []Change `json:"changes"`
	// Waiting has what is not as it should be, but must wait for something else.
	Waiting []Waiting `json:"waiting"`
}

// Change is a request that changes the cloud.
type Change struct {
	// Object is the object of the cluster that the request is made for.
	Object string `json:"object"`
	// Reason says why the request is made.
	Reason string `json:"reason"`
	// Differences are the fields that an update changes.
	Differences []string `json:"differences,omitempty"`
	// Method, Path, Header and Body are as the controllers send them. Header lacks what differs between two leaders and
	// between two requests: credentials, fence and the ID of the request.
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body,omitempty"`
}

// Waiting is an object of the cluster with the reason why nothing is written for it.
type Waiting struct {
	Object string `json:"object"`
	Reason string `json:"reason"`
}

// Make returns the plan of a cluster. It fails if the API server or the cloud cannot be read.
func Make(ctx context.Context, o Options) (*Plan, error) {
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	p := &planner{Options: o, record: &recorder{}}
	if err := p.connect(); err != nil {
		return nil, err
	}
	why, err := p.withheld(ctx)
	if err != nil {
		return nil, err
	}
	if why != "" {
		p.record.begin("cluster", nil)
		p.record.wait(why)
		return p.record.plan(), nil
	}
	state, err := p.read(ctx, &running)
	if err != nil {
		return nil, err
	}
	p.state = state
	p.groups = &groups{
		cloud: nodegroup.New(p.cloud, p.mirror.NodeGroups, p.cluster, p.Options.Config.ClusterID),
	}
	for _, step := range []func(context.Context) error{p.services, p.ingressNodes, p.routes} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return p.record.plan(), nil
}

// planner makes one plan.
type planner struct {
	Options
	*state

	record  *recorder
	config  *rest.Config
	api     kubernetes.Interface
	cloud   *cloudapi.Client
	cluster *ownership.Cluster
	groups  *groups
}

// connect creates clients that cannot write.
func (p *planner) connect() error {
	p.config = rest.CopyConfig(p.Cluster)
	p.config.Wrap(readOnly)
	var err error
	if p.api, err = kubernetes.NewForConfig(p.config); err != nil {
		return fmt.Errorf("create the client of the API server: %w", err)
	}
	calls := p.Cloud
	calls.Plan = p.record.write
	memory := contact.Memory{Client: p.api, Namespace: p.Namespace}
	calls.Identify = func(ctx context.Context) error { return holder.Identify(ctx, p.cloud, memory) }
	if p.cloud, err = cloudapi.New(calls); err != nil {
		return fmt.Errorf("create the client of the cloud: %w", err)
	}
	p.cluster = ownership.NewCluster(p.api.CoreV1())
	return nil
}

// services plans the writes of load balancers.
func (p *planner) services(ctx context.Context) error {
	list, err := p.state.services.Lister().List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list services: %w", err)
	}
	slices.SortFunc(list, func(a, b *corev1.Service) int { return strings.Compare(key(a), key(b)) })
	balancer := dlb.New(dlb.Options{
		Cloud: p.cloud, Mirror: p.mirror, Cluster: p.cluster, NodeGroups: p.groups, Policies: p.policies,
		Services: p.state.services.Lister(), Brake: p.brakes, Recorder: p.record, Drift: p.Drift,
	}.Configure(p.Options.Config))
	for _, svc := range list {
		owned := balancer.Owned(svc)
		p.record.begin("service "+key(svc), func(w cloudapi.PlannedWrite) (string, []string) {
			return p.explain(svc, owned, w)
		})
		result, err := service.Rehearse(ctx, balancer, p.Options.Config.LoadBalancerClass, svc)
		if ctx.Err() != nil {
			return fmt.Errorf("plan service %s: %w", key(svc), ctx.Err())
		}
		if reason := waiting(result, err); reason != "" {
			p.record.wait(reason)
		}
	}
	return nil
}

func key(svc *corev1.Service) string { return svc.Namespace + "/" + svc.Name }

// waiting returns why a pass for a Service did not get further, or an empty string.
func waiting(result service.State, err error) string {
	if rest := unplanned(err); rest != nil {
		return rest.Error()
	}
	if err != nil {
		return ""
	}
	if c := meta.FindStatusCondition(result.Conditions, condition.Configured); c != nil &&
		c.Status != metav1.ConditionTrue {
		return c.Message
	}
	return ""
}

// unplanned returns an error without its parts that are planned writes.
func unplanned(err error) error {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, part := range several.Unwrap() {
			rest = append(rest, unplanned(part))
		}
		return errors.Join(rest...)
	}
	if errors.Is(err, cloudapi.ErrPlanned) {
		return nil
	}
	return err
}

// ingressNodes plans the writes of node groups: those in the cloud and those that Services ask for.
func (p *planner) ingressNodes(ctx context.Context) error {
	p.record.begin("ingress nodes", p.explainGroup)
	controller, err := ingressnode.New(nodegroup.Configure(ingressnode.Options{
		Groups: p.groups.cloud, Machines: nodegroup.NewMachines(p.cloud, p.mirror), Nodes: p.nodes,
		Services: p.state.services, Recorder: p.record, InstanceID: providerid.Parse, Registerer: prometheus.NewRegistry(),
		Resumed: func() bool { return p.brakes.Resumed(brakes.PoolMembers) },
	}, p.Options.Config.IngressNodes))
	if err != nil {
		return err
	}
	if err := unplanned(controller.Once(ctx, p.groups.names...)); err != nil {
		return fmt.Errorf("plan ingress nodes: %w", err)
	}
	return nil
}

// routes plans the writes of the route table.
func (p *planner) routes(ctx context.Context) error {
	table := p.Options.Config.Network.RouteTableID
	if len(p.ClusterCIDRs) == 0 || table == "" {
		return nil
	}
	p.record.begin("routes", explainRoutes)
	controller, err := route.New(route.Options{
		Table: routetable.New(p.cloud, p.mirror.Routes, p.cluster, table), Nodes: p.nodes,
		Client: func() kubernetes.Interface { return p.api }, InstanceOf: routetable.InstanceOf,
		ClusterCIDRs: p.ClusterCIDRs, Period: time.Hour, Brake: p.brakes,
	})
	if err != nil {
		return err
	}
	if err := unplanned(controller.Once(ctx)); err != nil {
		return fmt.Errorf("plan routes: %w", err)
	}
	return nil
}
