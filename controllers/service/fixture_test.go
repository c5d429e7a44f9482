package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/condition"
)

const (
	class      = "mycloud.io/dlb"
	otherClass = "example.com/lb"
	// unserved is the label of Services without a class that are not ours.
	unserved  = "unserved"
	finalizer = "service.quaymaster.dev/mycloud.io_dlb"
	// shared is the finalizer of other controllers and of earlier versions.
	shared = "service.kubernetes.io/load-balancer-cleanup"
	// claim is the annotation of earlier versions.
	claim = "quaymaster.dev/load-balancer-claim"
)

// api is an API server with Services that enforces preconditions, as the real one does.
type api struct {
	source *fcache.FakeControllerSource

	mu       sync.Mutex
	services map[string]*corev1.Service
	patches  []string
	// before is called once, before the next patch.
	before func()
	// fail is the error of all patches.
	fail error
}

var resource = corev1.Resource("services")

// put stores a Service and shows it to the informer.
func (a *api) put(svc *corev1.Service) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.store(svc.DeepCopy())
}

func (a *api) store(svc *corev1.Service) {
	key := svc.Namespace + "/" + svc.Name
	old := a.services[key]
	switch {
	case svc.DeletionTimestamp != nil && len(svc.Finalizers) == 0:
		delete(a.services, key)
		a.source.Delete(svc)
		return
	case old == nil:
		a.source.Add(svc)
	default:
		a.source.Modify(svc)
	}
	a.services[key] = svc.DeepCopy()
}

// change modifies a Service as another client.
func (a *api) change(name string, change func(*corev1.Service)) {
	svc := a.get(name)
	change(svc)
	a.put(svc)
}

// drop removes a Service whatever its finalizers.
func (a *api) drop(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	svc := a.services["shop/"+name]
	delete(a.services, "shop/"+name)
	a.source.Delete(svc.DeepCopy())
}

// get returns a Service, or nil.
func (a *api) get(name string) *corev1.Service {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.services["shop/"+name].DeepCopy()
}

func (a *api) patch(action clienttesting.Action) (bool, runtime.Object, error) {
	p := action.(clienttesting.PatchAction)
	a.mu.Lock()
	before := a.before
	a.before = nil
	a.mu.Unlock()
	if before != nil {
		before()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	svc := a.services[p.GetNamespace()+"/"+p.GetName()]
	switch {
	case a.fail != nil:
		return true, nil, a.fail
	case svc == nil:
		return true, nil, apierrors.NewNotFound(resource, p.GetName())
	}
	var required struct {
		Metadata struct {
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(p.GetPatch(), &required); err != nil {
		return true, nil, err
	}
	if required.Metadata.UID == "" || required.Metadata.ResourceVersion == "" {
		return true, nil, fmt.Errorf("patch without preconditions: %s", p.GetPatch())
	}
	if required.Metadata.UID != svc.UID || required.Metadata.ResourceVersion != svc.ResourceVersion {
		return true, nil, apierrors.NewConflict(resource, p.GetName(), fmt.Errorf("precondition failed"))
	}
	old, err := json.Marshal(svc)
	if err != nil {
		return true, nil, err
	}
	data, err := jsonpatch.MergePatch(old, p.GetPatch())
	if err != nil {
		return true, nil, err
	}
	now := &corev1.Service{}
	if err := json.Unmarshal(data, now); err != nil {
		return true, nil, err
	}
	a.patches = append(a.patches, p.GetName()+" "+p.GetSubresource())
	a.store(now)
	return true, now.DeepCopy(), nil
}

// script is a cloud whose behavior a test writes.
type script struct {
	mu     sync.Mutex
	calls  []string
	ensure func(svc *corev1.Service) (service.State, error)
	remove func(svc *corev1.Service) (service.State, error)
}

func (s *script) Owned(svc *corev1.Service) bool {
	if _, others := svc.Labels[unserved]; others {
		return false
	}
	c := svc.Spec.LoadBalancerClass
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && (c == nil || *c == class)
}

func (s *script) Ensure(_ context.Context, svc *corev1.Service) (service.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, "ensure "+svc.Name)
	return s.ensure(svc)
}

func (s *script) Remove(_ context.Context, svc *corev1.Service) (service.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, "remove "+svc.Name)
	return s.remove(svc)
}

// ready is the State of a load balancer that is configured and serves.
func ready(svc *corev1.Service) service.State {
	return service.State{
		Record: "lb-" + svc.Name, Published: address("192.0.2.1"),
		Conditions: []metav1.Condition{{
			Type: condition.Configured, Status: metav1.ConditionTrue, Reason: "Configured",
			Message: "as " + svc.Annotations["setting"],
		}},
	}
}

// waiting is the State of a load balancer that the cloud works on.
func waiting(svc *corev1.Service, after time.Duration) service.State {
	return service.State{
		Record: "lb-" + svc.Name, RetryAfter: after,
		Conditions: []metav1.Condition{{
			Type: condition.Configured, Status: metav1.ConditionFalse, Reason: "Pending", Message: "being created",
		}},
	}
}

func address(ip string) *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: ip}}}
}

// informer is an informer of Services.
type informer struct{ cache.SharedIndexInformer }

func (i informer) Informer() cache.SharedIndexInformer { return i.SharedIndexInformer }
func (i informer) Lister() corelisters.ServiceLister {
	return corelisters.NewServiceLister(i.GetIndexer())
}

// fixture is a Controller in a synctest bubble.
type fixture struct {
	*api
	*script
	t          *testing.T
	controller *service.Controller
	events     *record.FakeRecorder
	registry   *prometheus.Registry
	stop       func()
}

// start runs a Controller with Services that exist already, until the test ends.
func start(t *testing.T, existing ...*corev1.Service) *fixture {
	t.Helper()
	f := &fixture{
		t: t, events: record.NewFakeRecorder(10000), registry: prometheus.NewRegistry(),
		api: &api{source: fcache.NewFakeControllerSource(), services: map[string]*corev1.Service{}},
		script: &script{
			ensure: func(svc *corev1.Service) (service.State, error) { return ready(svc), nil },
			remove: func(*corev1.Service) (service.State, error) { return service.State{Gone: true}, nil },
		},
	}
	for _, svc := range existing {
		f.put(svc)
	}
	f.run(f.registry)
	t.Cleanup(func() {
		f.stop()
		f.source.Shutdown()
	})
	f.settle()
	return f
}

func (f *fixture) run(registry *prometheus.Registry) {
	f.t.Helper()
	client := fake.NewClientset()
	client.PrependReactor("patch", "services", f.patch)
	client.PrependReactor("get", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		name := action.(clienttesting.GetAction).GetName()
		if svc := f.get(name); svc != nil {
			return true, svc, nil
		}
		return true, nil, apierrors.NewNotFound(resource, name)
	})
	services := informer{cache.NewSharedIndexInformer(f.source, &corev1.Service{}, 0,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})}
	var err error
	f.controller, err = service.New(service.Options{
		Services: services, LoadBalancerClass: class, Balancers: f.script, Registerer: registry, Workers: 8,
		Client:   func() kubernetes.Interface { return client },
		Reader:   client.CoreV1(),
		Recorder: func(context.Context, kubernetes.Interface) record.EventRecorder { return f.events },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(f.t.Context(), klog.Logger{}))
	var running sync.WaitGroup
	running.Go(func() { services.RunWithContext(ctx) })
	running.Go(func() { f.controller.Run(ctx) })
	f.stop = func() {
		cancel()
		running.Wait()
	}
}

// restart stops the Controller, lets others act and starts it again without any memory.
func (f *fixture) restart(meanwhile func()) {
	f.t.Helper()
	f.stop()
	f.reset()
	meanwhile()
	f.run(prometheus.NewRegistry())
	f.settle()
}

// settle waits until nothing happens any more without a delay.
func (f *fixture) settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// forgetCalls forgets the calls so far.
func (f *fixture) forgetCalls() {
	f.script.mu.Lock()
	defer f.script.mu.Unlock()
	f.calls = nil
}

// reset forgets calls, writes and Events.
func (f *fixture) reset() {
	f.forgetCalls()
	f.api.mu.Lock()
	f.patches = nil
	f.api.mu.Unlock()
	f.recorded()
}

// called returns the calls since the last reset.
func (f *fixture) called() []string {
	f.script.mu.Lock()
	defer f.script.mu.Unlock()
	return slices.Clone(f.calls)
}

// written returns the writes since the last reset.
func (f *fixture) written() []string {
	f.api.mu.Lock()
	defer f.api.mu.Unlock()
	return slices.Clone(f.patches)
}

// recorded returns the Events since the last call.
func (f *fixture) recorded() []string {
	var events []string
	for {
		select {
		case e := <-f.events.Events:
			events = append(events, e)
		default:
			return events
		}
	}
}

// expect compares calls, writes and Events since the last reset, and resets them.
func (f *fixture) expect(calls, writes, events string) {
	f.t.Helper()
	for what, pair := range map[string][2]string{
		"calls":  {calls, strings.Join(f.called(), ", ")},
		"writes": {writes, strings.Join(f.written(), ", ")},
		"events": {events, strings.Join(f.recorded(), ", ")},
	} {
		if pair[0] != pair[1] {
			f.t.Errorf("%s: got %q, want %q", what, pair[1], pair[0])
		}
	}
	f.reset()
}

// svc returns a Service of type LoadBalancer in namespace shop.
func svc(name string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func annotate(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, key, value) }
}

// deleted marks a Service as being deleted.
func deleted(s *corev1.Service) {
	s.DeletionTimestamp = &metav1.Time{Time: time.Now().Truncate(time.Second)}
}

// settled gives a Service what the controller writes.
func settled(s *corev1.Service) {
	recorded(s)
	s.Finalizers = append(s.Finalizers, finalizer)
}

// sharing gives a Service the finalizer that controllers share, which the controller adds with its own.
func sharing(s *corev1.Service) { s.Finalizers = append(s.Finalizers, shared) }

// earlier gives a Service what an earlier version has written.
func earlier(s *corev1.Service) {
	unclaimed(s)
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, claim, class)
}

// unclaimed gives a Service what other earlier versions have written.
func unclaimed(s *corev1.Service) {
	recorded(s)
	s.Finalizers = append(s.Finalizers, shared)
}

// recorded gives a Service record and status.
func recorded(s *corev1.Service) {
	state := ready(s)
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, service.AnnotationRecord, state.Record)
	s.Status.LoadBalancer, s.Status.Conditions = *state.Published, state.Conditions
	s.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
}
