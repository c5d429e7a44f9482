package safety

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
)

const (
	annotation = "service.beta.kubernetes.io/dlb-"
	ownClass   = "mycloud.io/dlb"
	otherClass = "example.com/other"

	ingressNode = "node.beta.kubernetes.io/dlb-ingress-node"
)

// scenario is a change by a user or of the cloud that the controllers react to.
type scenario struct {
	// before prepares the world; the controllers then finish their work.
	before func(*world)
	// act is the change. The process may be killed at any of its calls that follow.
	act func(*world)
	// wait is how long the controllers get to finish; it defaults to settled.
	wait time.Duration
}

func scenarios() map[string]scenario {
	web := func(w *world) { w.service("web", nil) }
	return map[string]scenario{
		"create": {act: web},
		"update": {before: web, act: func(w *world) {
			w.updateService("web", func(svc *corev1.Service) { svc.Annotations[annotation+"listener-maxqps"] = "77" })
		}},
		"delete": {before: web, act: func(w *world) { w.deleteService("web") }},
		"release": {before: func(w *world) {
			w.service("web", func(svc *corev1.Service) { svc.Annotations[annotation+"retain-on-delete"] = "true" })
		}, act: func(w *world) { w.deleteService("web") }},
		"adopt": {before: offer, act: func(w *world) {
			w.service("web", func(svc *corev1.Service) { svc.Annotations[annotation+"load-balancer-id"] = w.offered })
		}},
		"no longer a load balancer": {before: web, act: func(w *world) {
			w.updateService("web", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP })
		}},
		"another class": {before: web, act: func(w *world) {
			w.updateService("web", func(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP })
			w.updateService("web", func(svc *corev1.Service) {
				give(svc, new(otherClass))
			})
		}},
		"an earlier version": {before: web, act: func(w *world) {
			w.updateService("web", func(svc *corev1.Service) {
				svc.Finalizers, svc.Annotations["quaymaster.dev/load-balancer-claim"] = []string{sharedFinalizer}, ownClass
			})
		}},
		"node joins": {before: web, act: func(w *world) { w.addNode(4) }},
		"machine is deleted": {before: web, act: func(w *world) {
			w.deleteMachine("node-3")
			w.ready("node-3", corev1.ConditionUnknown)
		}},
		"finalizer is removed by force": {before: web, act: func(w *world) { w.lose("web") }},
	}
}

// give makes a Service a load balancer of a class. The controllers of other classes have a finalizer of their own.
func give(svc *corev1.Service, class *string) {
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, class
	if !ours(svc) && !slices.Contains(svc.Finalizers, sharedFinalizer) {
		svc.Finalizers = append(svc.Finalizers, sharedFinalizer)
	}
}

// withdraw removes the finalizer of the controllers of other classes, as they do.
func withdraw(svc *corev1.Service) {
	svc.Finalizers = slices.DeleteFunc(svc.Finalizers, func(name string) bool { return name == sharedFinalizer })
}

// service creates a Service that asks for a load balancer.
func (w *world) service(name string, change func(*corev1.Service)) {
	w.t.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			SessionAffinity: corev1.ServiceAffinityNone, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
			Ports: []corev1.ServicePort{{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP, NodePort: 30080}},
		},
	}
	if change != nil {
		change(svc)
	}
	w.create(svc)
}

func (w *world) updateService(name string, change func(*corev1.Service)) {
	w.t.Helper()
	w.write(name, change, w.api.CoreV1().Services(namespace).Update)
}

func (w *world) updateServiceStatus(name string, change func(*corev1.Service)) {
	w.t.Helper()
	w.write(name, change, w.api.CoreV1().Services(namespace).UpdateStatus)
}

func (w *world) write(
	name string, change func(*corev1.Service),
	update func(context.Context, *corev1.Service, metav1.UpdateOptions) (*corev1.Service, error),
) {
	w.t.Helper()
	w.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		svc, err := w.api.CoreV1().Services(namespace).Get(w.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if svc.Annotations == nil {
			svc.Annotations = map[string]string{}
		}
		change(svc)
		_, err = update(w.t.Context(), svc, metav1.UpdateOptions{})
		return err
	}))
}

func (w *world) deleteService(name string) {
	w.t.Helper()
	if err := w.api.CoreV1().Services(namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// lose ends a Service without its finalizer being honored, as if a user had removed that, or as if the Service had not
// existed when the backup was made that etcd was restored from.
func (w *world) lose(name string) {
	w.t.Helper()
	var uid types.UID
	w.updateService(name, func(svc *corev1.Service) {
		uid = svc.UID
		svc.Finalizers = nil
	})
	w.deleteService(name)
	// The controllers may have added their finalizer in between.
	if _, err := w.api.CoreV1().Services(namespace).Get(w.t.Context(), name, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		w.ledger.lose(uid)
	}
}

// reset returns a Service to what it was before it asked for a load balancer.
func (w *world) reset(name string) {
	w.t.Helper()
	w.updateService(name, func(svc *corev1.Service) {
		w.ledger.lose(svc.UID)
		svc.Spec.Type, svc.Finalizers, svc.Annotations = corev1.ServiceTypeClusterIP, nil, nil
	})
	w.updateServiceStatus(name, func(svc *corev1.Service) { svc.Status = corev1.ServiceStatus{} })
}

func (w *world) deleteMachine(hostname string) {
	w.t.Helper()
	found, err := w.cloud.LookupInstances(w.t.Context(), cloudv1.LookupRequest{Hostnames: []string{hostname}})
	if err != nil || len(found.Items) != 1 {
		w.t.Fatal(found, err)
	}
	machine := found.Items[0]
	w.ledger.deleteMachine(machine.ID)
	if _, err := w.cloud.DeleteInstance(w.t.Context(), machine.ID, cloudapi.WriteOptions{IfMatch: machine.Revision}); err != nil {
		w.t.Fatal(err)
	}
}

// offer creates a load balancer that its owner offers to the Service web.
func offer(w *world) {
	lb, _, err := w.cloud.CreateLoadBalancer(w.t.Context(), cloudv1.LoadBalancerSpec{
		Name: "theirs", Tags: map[string]string{ownership.Adopt: w.uid + "/" + namespace + "/web"},
		LoadBalancerFields: cloudv1.LoadBalancerFields{
			Scheme: cloudv1.SchemePublic, VIPs: []cloudv1.VIP{{Family: cloudv1.FamilyIPv4, Mode: "vip"}},
			Listeners: []cloudv1.Listener{}, Pools: []cloudv1.Pool{},
		},
	}, cloudapi.WriteOptions{IdempotencyKey: "theirs"})
	if err != nil {
		w.t.Fatal(err)
	}
	w.offered = lb.ID
}
