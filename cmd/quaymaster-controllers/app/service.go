package app

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	ccmapp "k8s.io/cloud-provider/app"
	"k8s.io/component-base/metrics/legacyregistry"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/kube/policystore"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/nodegroup"
	"quaymaster.dev/provider/orphans"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
)

// addLoadBalancers adds the controllers of load balancers: of the Services that ask for them, of the Nodes behind them,
// and of those that no Service uses.
func (a *assembler) addLoadBalancers() error {
	nodes, err := a.addIngressNodes()
	if err != nil {
		return err
	}
	balancer := dlb.New(dlb.Options{
		Cloud: a.cloud, Mirror: a.copied, Cluster: a.cluster, NodeGroups: nodes, Policies: a.store,
		Services: a.core.Services().Lister(), Brake: a.book, Recorder: a.completed.EventRecorder, Drift: a.drift.value,
	}.Configure(a.config))
	a.holder.OnLoss(balancer.Audit)
	a.assembly.Leading = append(a.assembly.Leading, balancer.Run)
	reporter := orphans.NewReporter(orphans.ReporterOptions{
		Cluster: a.cluster, Mirror: a.copied, Services: a.core.Services().Lister(), Owned: balancer.Owned,
		Recorder: a.completed.EventRecorder,
	})
	a.assembly.Run[orphans.ReporterName] = reporter.Run
	if err := register(reporter); err != nil {
		return err
	}
	// Without the service controller there is nothing to report about Services.
	if !a.manager.Enabled(service.Name) {
		return nil
	}
	if err := register(balancer.Metrics()); err != nil {
		return err
	}
	return a.addService(balancer, nodes)
}

// addIngressNodes adds the controller of node groups.
func (a *assembler) addIngressNodes() (*ingressnode.Controller, error) {
	members := nodegroup.NewMachines(a.cloud, a.copied)
	c, err := ingressnode.New(nodegroup.Configure(ingressnode.Options{
		Groups:     nodegroup.New(a.cloud, a.copied.NodeGroups, a.cluster, a.config.ClusterID),
		Machines:   members,
		Nodes:      a.core.Nodes(),
		Services:   a.core.Services(),
		Synced:     []cache.InformerSynced{members.HasSynced},
		Recorder:   a.completed.EventRecorder,
		InstanceID: providerid.Parse,
		Resumed:    func() bool { return a.book.Resumed(brakes.PoolMembers) },
		Registerer: legacyregistry.Registerer(),
	}, a.config.IngressNodes))
	if err != nil {
		return nil, err
	}
	a.assembly.Run[ingressnode.Name] = c.Run
	return c, register(c.Metrics())
}

// addService adds the service controller in place of the app's. It has the same flags and the same account, and follows
// the changes of load balancers in the cloud and of policies.
func (a *assembler) addService(balancers service.Balancers, nodes *ingressnode.Controller) error {
	account := ccmapp.DefaultInitFuncConstructors[service.Name].InitContext.ClientName
	c, err := service.New(service.Options{
		Services:          a.core.Services(),
		Client:            func() kubernetes.Interface { return a.completed.ClientBuilder.ClientOrDie(account) },
		Reader:            a.api.CoreV1(),
		LoadBalancerClass: a.config.LoadBalancerClass,
		Balancers:         balancers,
		// Without the cloud, the conditions of Services report that.
		Synced:     []cache.InformerSynced{a.store.HasSynced, a.copied.Tried},
		Recorder:   recorder(service.Name),
		Registerer: legacyregistry.Registerer(),
		Workers:    int(a.completed.ComponentConfig.ServiceController.ConcurrentServiceSyncs),
	})
	if err != nil {
		return fmt.Errorf("create the service controller: %w", err)
	}
	a.copied.LoadBalancers.OnChange(func(before, after *cloudv1.LoadBalancer) {
		for _, lb := range []*cloudv1.LoadBalancer{before, after} {
			if lb != nil {
				c.Enqueue(types.UID(lb.Tags[ownership.ServiceUID]))
			}
		}
	})
	all := func() { c.EnqueueNamespace(metav1.NamespaceAll) }
	a.holder.OnHeld(all)
	nodes.OnMoved(all)
	a.store.Subscribe(&policyFollower{
		entry: a.store.Entry, enqueue: c.EnqueueNamespace, known: map[policy.Key]*policy.Policy{},
	})
	a.assembly.Run[service.Name] = c.Run
	return register(c.Metrics())
}

// policyFollower reconciles the Services of the namespaces whose policies change.
type policyFollower struct {
	entry   func(policy.Key) (*policystore.Entry, bool)
	enqueue func(namespace string)

	mu    sync.Mutex
	known map[policy.Key]*policy.Policy
}

var _ policystore.Subscriber = (*policyFollower)(nil)

// NamespaceChanged implements policystore.Subscriber. The labels of a namespace decide which policies apply to it.
func (f *policyFollower) NamespaceChanged(name string) { f.enqueue(name) }

// PolicyChanged implements policystore.Subscriber. A change of the policy's status changes nothing for Services.
func (f *policyFollower) PolicyChanged(key policy.Key) {
	var now *policy.Policy
	if entry, found := f.entry(key); found {
		now = entry.Policy
	}
	f.mu.Lock()
	before := f.known[key]
	if f.known[key] = now; now == nil {
		delete(f.known, key)
	}
	f.mu.Unlock()
	if now != before {
		f.enqueue(key.Namespace)
	}
}
