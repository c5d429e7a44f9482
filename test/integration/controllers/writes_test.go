package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/controllers/service"
	"quaymaster.dev/internal/kube/condition"
	"quaymaster.dev/test/harness/env"
)

// instant is a cloud that has every load balancer at once. It calls meanwhile during each call.
type instant struct {
	mu        sync.Mutex
	meanwhile func(svc *corev1.Service)
}

func (c *instant) set(meanwhile func(svc *corev1.Service)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.meanwhile = meanwhile
}

func (c *instant) call(svc *corev1.Service) {
	c.mu.Lock()
	meanwhile := c.meanwhile
	c.meanwhile = nil
	c.mu.Unlock()
	if meanwhile != nil {
		meanwhile(svc)
	}
}

func (*instant) Owned(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil
}

func (c *instant) Ensure(_ context.Context, svc *corev1.Service) (service.State, error) {
	c.call(svc)
	return service.State{
		Record:    "lb of " + string(svc.UID),
		Published: &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.7", IPMode: new(corev1.LoadBalancerIPModeVIP)}}},
		Conditions: []metav1.Condition{{
			Type: condition.Configured, Status: metav1.ConditionTrue, Reason: "Configured", Message: svc.Annotations["setting"],
		}},
	}, nil
}

func (c *instant) Remove(_ context.Context, svc *corev1.Service) (service.State, error) {
	c.call(svc)
	return service.State{Gone: true}, nil
}

// TestServiceWrites: the API server accepts what the service controller writes, and rejects what would undo the writes
// of others.
func TestServiceWrites(t *testing.T) {
	t.Parallel()
	w := &world{t: t, env: env.Start(t, env.Options{})}
	w.client = w.env.Client
	clients, err := kubernetes.NewForConfig(w.env.Admin)
	if err != nil {
		t.Fatal(err)
	}
	cloud := &instant{}
	start := func() (stop func()) {
		factory := informers.NewSharedInformerFactory(clients, 0)
		c, err := service.New(service.Options{
			Services: factory.Core().V1().Services(), LoadBalancerClass: "mycloud.io/dlb", Balancers: cloud, Workers: 2,
			Client: func() kubernetes.Interface { return clients }, Reader: clients.CoreV1(),
			Recorder: func(context.Context, kubernetes.Interface) record.EventRecorder {
				return record.NewFakeRecorder(1000)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		factory.StartWithContext(ctx)
		var running sync.WaitGroup
		running.Go(func() { c.Run(ctx) })
		return func() {
			cancel()
			running.Wait()
			factory.Shutdown()
		}
	}
	stop := start()
	defer func() { stop() }()

	// Others write between a read and a write of the controller.
	cloud.set(func(svc *corev1.Service) {
		now := w.get(svc)
		now.Finalizers = append(now.Finalizers, "example.com/keep")
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, "setting", "fast")
		w.must(w.client.Update(t.Context(), now))
		meta.SetStatusCondition(&now.Status.Conditions, metav1.Condition{Type: "example.com/Ready", Status: metav1.ConditionTrue, Reason: "Ready"})
		w.must(w.client.Status().Update(t.Context(), now))
	})
	web := w.service("web")
	w.settled(web, "fast", "example.com/keep", servicehelpers.LoadBalancerCleanupFinalizer, service.Finalizer("mycloud.io/dlb"))
	if meta.FindStatusCondition(w.get(web).Status.Conditions, "example.com/Ready") == nil {
		t.Error("the condition of another controller is lost")
	}

	// Another client replaces the whole Service, which it read before it was ours.
	now := w.get(web)
	now.Annotations, now.Finalizers = map[string]string{"setting": "slow"}, []string{"example.com/keep"}
	w.must(w.client.Update(t.Context(), now))
	w.settled(web, "slow", "example.com/keep", servicehelpers.LoadBalancerCleanupFinalizer, service.Finalizer("mycloud.io/dlb"))

	// A Service of the same name takes its place while the cloud is called.
	cloud.set(func(svc *corev1.Service) {
		now := w.get(svc)
		now.Finalizers = nil
		w.must(w.client.Update(t.Context(), now))
		w.must(w.client.Delete(t.Context(), now))
		w.service("brief")
	})
	brief := w.service("brief")
	env.Eventually(t, soon, "the second service", func(ctx context.Context) error {
		second := &corev1.Service{}
		err := w.client.Get(ctx, client.ObjectKeyFromObject(brief), second)
		if err == nil && second.UID == brief.UID {
			err = errors.New("it is still the first")
		}
		return err
	})
	w.settled(w.get(brief), "", servicehelpers.LoadBalancerCleanupFinalizer, service.Finalizer("mycloud.io/dlb"))

	// The Service gets another class while the controller is down.
	stop()
	for _, change := range []func(*corev1.Service){
		func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP },
		func(svc *corev1.Service) {
			svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, new("example.com/lb")
		},
	} {
		now := w.get(web)
		change(now)
		w.must(w.client.Update(t.Context(), now))
	}
	theirs := w.get(web)
	theirs.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.9", IPMode: new(corev1.LoadBalancerIPModeVIP)}}
	w.must(w.client.Status().Update(t.Context(), theirs))
	stop = start()
	env.Eventually(t, soon, "the end of our part", func(context.Context) error {
		now := w.get(web)
		_, marked := now.Annotations[service.AnnotationRecord]
		if ours := meta.FindStatusCondition(now.Status.Conditions, condition.Configured); marked || ours != nil {
			return fmt.Errorf("annotations %v, condition %v", now.Annotations, ours)
		}
		return nil
	})
	now = w.get(web)
	if diff := cmp.Diff(theirs.Status.LoadBalancer, now.Status.LoadBalancer); diff != "" {
		t.Errorf("the status of another controller (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"example.com/keep", servicehelpers.LoadBalancerCleanupFinalizer}, now.Finalizers); diff != "" || len(now.Status.Conditions) != 1 {
		t.Errorf("conditions %+v, finalizers (-want +got):\n%s", now.Status.Conditions, diff)
	}

	// A deleted Service goes once its load balancer is gone.
	second := w.get(brief)
	w.must(w.client.Delete(t.Context(), second))
	w.gone(second, soon)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// settled waits until a Service publishes its load balancer, with the setting in its condition, and has the finalizers.
func (w *world) settled(svc *corev1.Service, setting string, finalizers ...string) {
	w.t.Helper()
	env.Eventually(w.t, soon, "load balancer of "+svc.Name, func(ctx context.Context) error {
		now := &corev1.Service{}
		if err := w.client.Get(ctx, client.ObjectKeyFromObject(svc), now); err != nil {
			return err
		}
		c := meta.FindStatusCondition(now.Status.Conditions, condition.Configured)
		switch got := slices.Sorted(slices.Values(now.Finalizers)); {
		case now.Annotations[service.AnnotationRecord] != "lb of "+string(svc.UID):
			return fmt.Errorf("annotations %v", now.Annotations)
		case c == nil || c.Message != setting || len(now.Status.LoadBalancer.Ingress) != 1:
			return fmt.Errorf("status %+v", now.Status)
		case !slices.Equal(got, finalizers):
			return fmt.Errorf("finalizers %q", got)
		}
		return nil
	})
}
