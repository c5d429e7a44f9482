package chart

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
)

// serviceSteps returns the life of a Service: every kind of request that reaches a Service of some type.
func serviceSteps(ctx context.Context, kube client.Client) []step {
	const defaulted = "quaymaster.dev/defaulted"
	validate := map[string]int{"/validate-service": 1}
	both := map[string]int{"/mutate-service": 1, "/validate-service": 1}

	svc := withoutUID(builder.Service(builder.Spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeClusterIP })))
	svc.Spec.Ports[0].NodePort = 0
	create := func(object *corev1.Service, options ...client.CreateOption) func() error {
		return func() error { return kube.Create(ctx, object, options...) }
	}
	update := func(change func()) func() error {
		return func() error { change(); return kube.Update(ctx, svc) }
	}
	status := func(change func()) func() error {
		return func() error { change(); return kube.Status().Update(ctx, svc) }
	}
	patch := func(text string) func() error {
		return func() error { return kube.Patch(ctx, svc, client.RawPatch(types.MergePatchType, []byte(text))) }
	}
	patchStatus := func(text string) func() error {
		return func() error {
			return kube.Status().Patch(ctx, svc, client.RawPatch(types.MergePatchType, []byte(text)))
		}
	}
	become := func(kind corev1.ServiceType) func() error { return update(func() { svc.Spec.Type = kind }) }
	annotate := func(options ...builder.ServiceOption) func() {
		return func() {
			for _, option := range options {
				option(svc)
			}
		}
	}
	address := func(ip string) func() {
		return func() { svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}} }
	}
	external := withoutUID(builder.Service(builder.Spec(func(s *corev1.ServiceSpec) {
		*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	})))
	named := withoutUID(builder.Service())
	named.Name, named.GenerateName, named.Spec.Ports[0].NodePort = "", "web-", 0
	headless := withoutUID(builder.Service(builder.Spec(func(s *corev1.ServiceSpec) {
		s.Type, s.ClusterIP, s.Ports = corev1.ServiceTypeClusterIP, corev1.ClusterIPNone, nil
	})))
	headless.Name = "headless"

	return []step{
		{"an external name is created", create(external, client.DryRunAll), none},
		{"a headless Service is created", create(headless, client.DryRunAll), none},
		{"a load balancer with a generated name is created", create(named, client.DryRunAll), both},

		{"a Service is created", create(svc), none},
		{"it is annotated", update(annotate(builder.Annotation("example.com/team", "edge"))), none},
		{"it is annotated for a load balancer", update(annotate(builder.DLB("scheduler", "source-ip"))), validate},
		{"its status is annotated", status(annotate(builder.DLB("listener-maxqps", "5"))), validate},
		{"it becomes a node port", become(corev1.ServiceTypeNodePort), validate},
		{"it becomes a load balancer", become(corev1.ServiceTypeLoadBalancer), both},
		{"it is updated without a change", update(func() {}), validate},
		{"it is labelled", patch(`{"metadata":{"labels":{"tier":"front"}}}`), validate},
		{"it gets an address", status(address("192.0.2.1")), none},
		{"its status is labelled", patchStatus(`{"metadata":{"labels":{"tier":"back"}}}`), none},
		{"its annotations change with its status", status(annotate(builder.DLB("listener-maxqps", "7"))), validate},
		{"its defaults are recorded", update(annotate(builder.Annotation(defaulted, "listener-maxqps"))), validate},
		{"its record becomes long", update(annotate(builder.Annotation(defaulted, strings.Repeat(",", 30_000)))), validate},
		{"it is annotated with a long record", patch(`{"metadata":{"annotations":{"example.com/note":"x"}}}`), both},
		{"it is replaced without the record", patch(`{"metadata":{"annotations":{"` + defaulted + `":null}}}`), both},
		{"its annotations are removed with its status", patchStatus(`{"metadata":{"annotations":null}}`), validate},
		{"it gets an address without annotations", status(address("192.0.2.2")), none},
		{"it is annotated for the first time with its status",
			patchStatus(`{"metadata":{"annotations":{"example.com/team":"edge"}}}`), validate},
		{"it stops being a load balancer", become(corev1.ServiceTypeClusterIP), none},
		{"it becomes a load balancer again", become(corev1.ServiceTypeLoadBalancer), both},
		{"it gets a finalizer", patch(`{"metadata":{"finalizers":["example.com/hold"]}}`), validate},
		{"it is deleted", func() error { return kube.Delete(ctx, svc) }, none},
		{"it is annotated during deletion", patch(`{"metadata":{"annotations":{"example.com/team":"core"}}}`), none},
		{"it loses its address", patchStatus(`{"status":{"loadBalancer":null}}`), none},
		{"its finalizer is removed", patch(`{"metadata":{"finalizers":null}}`), none},
	}
}
