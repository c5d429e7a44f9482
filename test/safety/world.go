// Package safety proves what the controllers promise: it runs them against the reference cloud and an API server on
// virtual time, kills them at every call, makes the cloud fail in every way, and checks after every step that no
// promise is broken.
package safety

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	cloudproviderapi "k8s.io/cloud-provider/api"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/mycloud/server/api/handler"
	"quaymaster.dev/internal/mycloud/server/inventory"
	"quaymaster.dev/provider/orphans"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/kubeapi"
)

const (
	token      = "test-token"
	cloudHost  = "127.0.0.1:8090"
	clusterUID = "00000000-0000-0000-0000-00000000c1a5"
	namespace  = "shop"
	// settled is how long the controllers get to finish their work. It exceeds all delays that a single failure causes.
	settled = 15 * time.Minute
)

// world is a cluster, its cloud and the controllers.
type world struct {
	*site
	t     *testing.T
	api   kubernetes.Interface
	cloud *cloudapi.Client

	server *kubeapi.Server
	ledger *ledger

	mu sync.Mutex
	// violations are the broken promises, in order.
	violations []string
	// deleted are the Nodes that were deleted, in order.
	deleted []deletion
	// resumed is when an operator has resumed the deletion of Nodes, or the zero time.
	resumed time.Time
	// services are the Services as they are now.
	services map[types.UID]*corev1.Service
	// published are the addresses that Services have published and not given up.
	published map[types.UID][]string
	// given are the Services that have given up the address that they publish.
	given map[types.UID]bool
	// orphans reports the load balancers without a Service.
	orphans *orphans.Reporter

	// uid is the UID of the cluster.
	uid string
	// authority is the fingerprint of the certificate authority of the API server.
	authority string
	// copied is true for a copy of another cluster, which must write nothing.
	copied bool
	// clusterID is the one of the cloud config.
	clusterID string

	// offered is a load balancer that can be adopted.
	offered string

	running *sync.WaitGroup
	process *process
	// epoch is the number of the last leader.
	epoch int64
	// astray is the cloud that the endpoint leads to by mistake, or nil.
	astray atomic.Pointer[site]
}

// size is how large a world is.
type size struct {
	// nodes is the number of Nodes.
	nodes int
	// jobs is how long the cloud works on a write of a load balancer.
	jobs time.Duration
	// addresses is the range of the public addresses; if empty, there are enough for a few Services. In a world with very
	// many Services, the cloud is only checked in the end.
	addresses string
	// limits are the rate limits of the cloud.
	limits handler.RateLimits
}

// newWorld starts a cluster and its cloud. It must be called in a bubble of testing/synctest.
func newWorld(t *testing.T, o size) *world {
	t.Helper()
	stock := cloud.ExampleInventory(t)
	if o.addresses != "" {
		stock.AddressPools = []inventory.AddressPool{{Scheme: cloudv1.SchemePublic, CIDR: o.addresses}}
	}
	s := newSite(t, stock, o)
	books := newLedger(s)
	if o.addresses == "" {
		s.wrote = books.wrote
	}
	w := newCluster(t, s, books, clusterUID, "sha256:original")
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: types.UID(w.uid)}})
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	for i := 1; i <= o.nodes; i++ {
		w.addNode(i)
	}
	t.Cleanup(w.stop)
	return w
}

// newCluster starts an API server without objects.
func newCluster(t *testing.T, s *site, l *ledger, uid, authority string) *world {
	t.Helper()
	w := &world{
		t: t, server: kubeapi.Start(t), site: s, cloud: newClient(t, s.back.Transport()), ledger: l,
		services: map[types.UID]*corev1.Service{}, published: map[types.UID][]string{}, given: map[types.UID]bool{},
		uid: uid, authority: authority, clusterID: "dev",
	}
	w.api = w.server.Client(t)
	w.server.Observe(w.checkChange)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worlds = append(l.worlds, w)
	return w
}

func (w *world) create(object any) {
	w.t.Helper()
	var err error
	switch o := object.(type) {
	case *corev1.Namespace:
		_, err = w.api.CoreV1().Namespaces().Create(w.t.Context(), o, metav1.CreateOptions{})
	case *corev1.Node:
		_, err = w.api.CoreV1().Nodes().Create(w.t.Context(), o, metav1.CreateOptions{})
	case *corev1.Service:
		_, err = w.api.CoreV1().Services(o.Namespace).Create(w.t.Context(), o, metav1.CreateOptions{})
	default:
		err = fmt.Errorf("unknown kind %T", o)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// addNode registers a Node as its kubelet would, and its machine in the cloud unless the inventory has it.
func (w *world) addNode(i int) {
	w.t.Helper()
	name, podCIDR := fmt.Sprintf("node-%d", i), fmt.Sprintf("10.%d.%d.0/24", 224+i/256, i%256)
	found, err := w.cloud.LookupInstances(w.t.Context(), cloudv1.LookupRequest{Hostnames: []string{name}})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(found.Items) == 0 {
		_, err := w.cloud.CreateInstance(w.t.Context(), cloudv1.InstanceSpec{
			Hostname: name, Type: "m1.medium", Zone: "eu-1a",
			Addresses: []cloudv1.InstanceAddress{{Type: cloudv1.AddressInternal, Family: cloudv1.FamilyIPv4, Address: fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)}},
		}, cloudapi.WriteOptions{IdempotencyKey: name})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	w.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Spec: corev1.NodeSpec{
			PodCIDR: podCIDR, PodCIDRs: []string{podCIDR},
			Taints: []corev1.Taint{{Key: cloudproviderapi.TaintExternalCloudProvider, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
		},
	})
	w.ready(name, corev1.ConditionTrue)
}

// machines returns all machines of the cloud, deleted ones included.
func (w *world) machines() []cloudv1.Instance {
	list, err := w.cloud.ListInstances(w.t.Context(), cloudapi.ListOptions{IncludeDeleted: true})
	w.must(err)
	return list.Items
}

// runningMachines returns the names of the machines that are not deleted.
func (w *world) runningMachines() map[string]bool {
	running := map[string]bool{}
	for _, m := range w.machines() {
		if m.State != cloudv1.InstanceDeleted {
			running[m.Hostname] = true
		}
	}
	return running
}

// ready sets the condition that a Node's kubelet reports.
func (w *world) ready(name string, status corev1.ConditionStatus) {
	w.t.Helper()
	w.updateNode(name, "status", func(node *corev1.Node) {
		for i := range node.Status.Conditions {
			if node.Status.Conditions[i].Type == corev1.NodeReady {
				node.Status.Conditions[i].Status = status
				return
			}
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeReady, Status: status})
	})
}

// updateNode changes a Node, unless the controllers delete it.
func (w *world) updateNode(name, subresource string, change func(*corev1.Node)) {
	w.t.Helper()
	nodes := w.api.CoreV1().Nodes()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(node)
		if subresource == "status" {
			_, err = nodes.UpdateStatus(w.t.Context(), node, metav1.UpdateOptions{})
		} else {
			_, err = nodes.Update(w.t.Context(), node, metav1.UpdateOptions{})
		}
		return err
	})
	if !apierrors.IsNotFound(err) {
		w.must(err)
	}
}

// settle lets the controllers work for a time, at least for settled.
func (w *world) settle(wait time.Duration) { time.Sleep(max(wait, settled)) }

// finish checks what must hold in the end, stops the controllers and reports every violation.
func (w *world) finish() {
	w.t.Helper()
	w.checkSettled()
	w.stop()
	for _, v := range w.violations {
		w.t.Error(v)
	}
}
