package app

import (
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	ccmapp "k8s.io/cloud-provider/app"
	ccmconfig "k8s.io/cloud-provider/app/config"
	"k8s.io/component-base/metrics/legacyregistry"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/cloud"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/policystore"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/ownership"
)

// addService adds the service controller to an assembly, in place of the app's. It has the same flags and the same
// account, and follows the changes of load balancers in the cloud and of policies.
func (r *controllers) addService(
	assembly *cloud.Assembly, completed *ccmconfig.CompletedConfig, balancers service.Balancers,
	nodes *ingressnode.Controller, copied *mirror.Mirror, policies *policystore.Store,
) error {
	if !r.manager.Enabled(service.Name) {
		return nil
	}
	account := ccmapp.DefaultInitFuncConstructors[service.Name].InitContext.ClientName
	c, err := service.New(service.Options{
		Services:          completed.SharedInformers.Core().V1().Services(),
		Client:            func() kubernetes.Interface { return completed.ClientBuilder.ClientOrDie(account) },
		Reader:            r.api.CoreV1(),
		LoadBalancerClass: r.config.LoadBalancerClass,
		Balancers:         balancers,
		// Without the cloud, the conditions of Services report that.
		Synced:     []cache.InformerSynced{policies.HasSynced, copied.Tried},
		Recorder:   recorder(service.Name),
		Registerer: legacyregistry.Registerer(),
		Workers:    int(completed.ComponentConfig.ServiceController.ConcurrentServiceSyncs),
	})
	if err != nil {
		return fmt.Errorf("create the service controller: %w", err)
	}
	if err := legacyregistry.Registerer().Register(c.Metrics()); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	copied.LoadBalancers.OnChange(func(before, after *cloudv1.LoadBalancer) {
		for _, lb := range []*cloudv1.LoadBalancer{before, after} {
			if lb != nil {
				c.Enqueue(types.UID(lb.Tags[ownership.ServiceUID]))
			}
		}
	})
	all := func() { c.EnqueueNamespace(metav1.NamespaceAll) }
	r.holder.OnHeld(all)
	nodes.OnMoved(all)
	policies.Subscribe(&policyFollower{
		entry: policies.Entry, enqueue: c.EnqueueNamespace, known: map[policy.Key]*policy.Policy{},
	})
	assembly.Run[service.Name] = c.Run
	return nil
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
