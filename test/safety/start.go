package safety

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/controllers/brake"
	"quaymaster.dev/controllers/ingressnode"
	"quaymaster.dev/controllers/node"
	"quaymaster.dev/controllers/nodelifecycle"
	"quaymaster.dev/controllers/route"
	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/config"
	"quaymaster.dev/internal/kube/brakes"
	"quaymaster.dev/internal/kube/clusterca"
	"quaymaster.dev/internal/kube/contact"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/provider/dlb"
	"quaymaster.dev/provider/dlb/tree"
	"quaymaster.dev/provider/holder"
	"quaymaster.dev/provider/machines"
	"quaymaster.dev/provider/mirror"
	"quaymaster.dev/provider/nodegroup"
	"quaymaster.dev/provider/orphans"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/provider/providerid"
	"quaymaster.dev/provider/routetable"
)

// start runs the controllers as their program does when it becomes the leader.
func (w *world) start() {
	w.t.Helper()
	w.stop()
	ctx, kill := context.WithCancel(context.Background())
	w.process = &process{kill: kill}
	w.epoch++
	w.process.epoch.Store(w.epoch)
	api, err := kubernetes.NewForConfig(w.server.Config(w.process.wrap))
	if err != nil {
		w.t.Fatal(err)
	}
	w.running = &sync.WaitGroup{}
	for _, run := range w.assemble(api) {
		w.running.Go(func() { run(ctx) })
	}
}

// stop ends the controllers, if they run, and waits for them.
func (w *world) stop() {
	if w.running == nil {
		return
	}
	w.process.end()
	w.running.Wait()
	w.running = nil
}

// assemble creates the controllers and what they share, in the order in which they start.
func (w *world) assemble(api kubernetes.Interface) []func(context.Context) {
	w.t.Helper()
	var held *holder.Holder
	p := w.process
	cloud := newClient(w.t, p.wrap(w.endpoint()), func(o *cloudapi.Options) {
		o.Fence = func() string { return held.Fence(fmt.Sprintf("%s;epoch=%d", w.uid, p.epoch.Load())) }
		o.OnFenced = func(error) { w.raise(p) }
		o.Withhold = func(ctx context.Context) error { return held.Withhold(ctx) }
		o.OnNotHolder = func() { held.Doubt() }
		o.Identify = func(ctx context.Context) error { return held.Identify(ctx) }
		o.OnOtherState = func() { held.Doubt() }
	})
	shared := informers.NewSharedInformerFactory(api, 0)
	nodes, services := shared.Core().V1().Nodes(), shared.Core().V1().Services()
	cluster := ownership.NewCluster(api.CoreV1())
	recorder := &record.FakeRecorder{}
	withRights := func() kubernetes.Interface { return api }
	recorderOf := func(context.Context, kubernetes.Interface) record.EventRecorder { return recorder }

	held = holder.New(holder.Options{
		Cloud: cloud, ClusterUID: w.uid, ClusterID: w.clusterID, Recorder: recorder,
		Memory: contact.Memory{Client: api, Namespace: metav1.NamespaceSystem},
		Identity: func() (clusterca.Identity, error) {
			return clusterca.Identity{Proven: w.authority, Accepted: []string{w.authority}}, nil
		},
	})
	book := brake.New(brake.Options{Client: api, Namespace: "kube-system", Recorder: recorder})
	copied := mirror.New(mirror.Options{Cloud: cloud, Cluster: cluster})
	instances := nodegroup.NewMachines(cloud, copied)
	groups, err := ingressnode.New(ingressnode.Options{
		Groups: nodegroup.New(cloud, copied.NodeGroups, cluster, w.clusterID), Machines: instances, Nodes: nodes,
		Synced:   []cache.InformerSynced{instances.HasSynced},
		Services: services, Recorder: recorder, InstanceID: providerid.Parse, FallbackAll: true,
		MaxRemovedPercent: config.DefaultMaxRemovedPercentPerMinute, MaxGroups: config.DefaultMaxGroups, RetryAfter: cloudapi.RetryAfter,
		Resumed: func() bool { return book.Resumed(brakes.PoolMembers) },
	})
	w.must(err)
	balancer := dlb.New(dlb.Options{
		Cloud: cloud, Mirror: copied, Cluster: cluster, ClusterID: w.clusterID, Network: tree.Network{VPCID: "vpc-main"},
		LoadBalancerClass: ownClass, DefaultClass: true, KubeProxyHealthCheckPort: loadbalancer.DefaultKubeProxyHealthCheckPort,
		NodeGroups: groups, Services: services.Lister(), Brake: book, Recorder: recorder,
	})
	balancers, err := service.New(service.Options{
		Services: services, Client: withRights, Reader: api.CoreV1(), LoadBalancerClass: ownClass, Balancers: balancer,
		Synced: []cache.InformerSynced{copied.Tried}, Recorder: recorderOf, Workers: 64,
	})
	w.must(err)
	held.OnLoss(copied.Lost)
	held.OnLoss(balancer.Audit)
	held.OnHeld(func() { balancers.EnqueueNamespace("") })
	groups.OnMoved(func() { balancers.EnqueueNamespace("") })
	copied.LoadBalancers.OnChange(func(before, after *cloudv1.LoadBalancer) {
		for _, lb := range []*cloudv1.LoadBalancer{before, after} {
			if lb != nil {
				balancers.Enqueue(types.UID(lb.Tags[ownership.ServiceUID]))
			}
		}
	})
	found := machines.New(cloud, copied)
	initializer, err := node.New(node.Options{
		Nodes: nodes, Client: withRights, Recorder: recorderOf, Machines: found, Workers: 8, Period: 5 * time.Minute,
	})
	w.must(err)
	lifecycle, err := nodelifecycle.New(nodelifecycle.Options{
		Nodes: nodes, Client: withRights, Recorder: recorderOf, Machines: found, Brakes: book,
	})
	w.must(err)
	routes, err := route.New(route.Options{
		Table: routetable.New(cloud, copied.Routes, cluster, "rt-main"), Nodes: nodes, Client: withRights,
		InstanceOf: routetable.InstanceOf, ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.224.0.0/11")},
		Period: 10 * time.Second, Brake: book,
	})
	w.must(err)
	w.orphans = orphans.NewReporter(orphans.ReporterOptions{
		Cluster: cluster, Mirror: copied, Services: services.Lister(), Owned: balancer.Owned, Recorder: recorder,
	})
	return []func(context.Context){
		func(ctx context.Context) {
			shared.StartWithContext(ctx)
			<-ctx.Done()
			shared.Shutdown()
		},
		held.Run, book.Run, copied.Run, groups.Run, balancer.Run, balancers.Run, initializer.Run, lifecycle.Run, routes.Run, w.orphans.Run,
	}
}

// endpoint returns the transport of the controllers to the cloud, or to another one while their endpoint is wrong.
func (w *world) endpoint() http.RoundTripper {
	right := w.front.Transport()
	wrong := map[*site]http.RoundTripper{}
	var mu sync.Mutex
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		other := w.astray.Load()
		if other == nil {
			return right.RoundTrip(r)
		}
		mu.Lock()
		if wrong[other] == nil {
			wrong[other] = other.front.Transport()
		}
		transport := wrong[other]
		mu.Unlock()
		return transport.RoundTrip(r)
	})
}

// raise gives the leader a higher epoch if the cloud has seen that already, as a lease that is older than the cloud is
// raised.
func (w *world) raise(p *process) {
	record, err := holder.Read(context.Background(), w.cloud, w.uid)
	if err != nil || record == nil || p.died() {
		return
	}
	if seen := int64(record.Epoch); seen > p.epoch.Load() {
		p.epoch.Store(seen + 1)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
