package export_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// inNamespace creates a namespace.
func inNamespace(t *testing.T, name string) *admissionregistrationv1.MatchResources {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := cluster.Client.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return &admissionregistrationv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{
		MatchLabels: map[string]string{corev1.LabelMetadataName: name},
	}}
}

// service returns a Service of a namespace.
func service(namespace string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Namespace, svc.UID, svc.Spec.Ports[0].NodePort = namespace, "", 0
	return svc
}

// A Service keeps the problems that it had before the policies, but gets no new ones, not even by a write of its status.
func TestUpdates(t *testing.T) {
	const namespace = "updates"
	scope := inNamespace(t, namespace)
	stored := service(namespace, builder.DLB("scheduler", "fastest"), builder.DLB("listener-maxqps", "5"))
	if err := cluster.Client.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(exported.Bindings, func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
		return b.Name == "quaymaster-"+loadbalancer.Catalog
	})
	b := exported.Bindings[i].DeepCopy()
	b.Name, b.Spec.MatchResources = namespace, scope
	if err := cluster.Client.Create(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	active(t, service(namespace, builder.DLB("scheduler", "fastest")))

	many := func(svc *corev1.Service) {
		for i := range 150 {
			builder.Annotation("example.com/"+strconv.Itoa(i), "x")(svc)
		}
	}
	long := builder.Annotation("example.com/long", strings.Repeat("x", 10_000))
	for name, test := range map[string]struct {
		change  []builder.ServiceOption
		status  bool
		refused bool
	}{
		"label":                          {change: []builder.ServiceOption{func(svc *corev1.Service) { svc.Labels = map[string]string{"tier": "front"} }}},
		"valid annotation":               {change: []builder.ServiceOption{builder.DLB("listener-maxqps", "7")}},
		"invalid annotation":             {change: []builder.ServiceOption{builder.DLB("listener-maxqps", "x")}, refused: true},
		"invalid annotation for a port":  {change: []builder.ServiceOption{builder.DLB("listener-maxqps.80", "x")}, refused: true},
		"valid annotation for a port":    {change: []builder.ServiceOption{builder.DLB("listener-maxqps.80", "7")}},
		"annotation for an unknown port": {change: []builder.ServiceOption{builder.DLB("listener-maxqps.81", "7")}, refused: true},
		"invalid annotation, changed":    {change: []builder.ServiceOption{builder.DLB("scheduler", "slowest")}, refused: true},
		"unknown annotation":             {change: []builder.ServiceOption{builder.DLB("schedular", "source-ip")}, refused: true},
		"keys that exclude each other":   {change: []builder.ServiceOption{builder.DLB("ip-mode", "vip"), builder.DLB("hostname", "a.example.com")}, refused: true},
		"protocol":                       {change: []builder.ServiceOption{func(svc *corev1.Service) { svc.Spec.Ports[0].Protocol = corev1.ProtocolSCTP }}, refused: true},
		"many annotations":               {change: []builder.ServiceOption{many}},
		"many, and an invalid one":       {change: []builder.ServiceOption{many, builder.DLB("listener-maxqps", "x")}, refused: true},
		"a long one":                     {change: []builder.ServiceOption{long}},
		"a long one, and an invalid one": {change: []builder.ServiceOption{long, builder.DLB("listener-maxqps", "x")}, refused: true},
		"a long invalid one":             {change: []builder.ServiceOption{builder.DLB("hostname", strings.Repeat("x", 10_000))}, refused: true},
		"other type, invalid":            {change: []builder.ServiceOption{builder.Spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeClusterIP }), builder.DLB("listener-maxqps", "x")}},
		"status": {status: true, change: []builder.ServiceOption{func(svc *corev1.Service) {
			svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		}}},
		"status with another annotation":   {status: true, change: []builder.ServiceOption{builder.Annotation("example.com/team", "edge")}},
		"status with a valid annotation":   {status: true, change: []builder.ServiceOption{builder.DLB("listener-maxqps", "7")}},
		"status with invalid annotation":   {status: true, change: []builder.ServiceOption{builder.DLB("listener-maxqps", "x")}, refused: true},
		"status with unknown annotation":   {status: true, change: []builder.ServiceOption{builder.DLB("schedular", "source-ip")}, refused: true},
		"status without any annotation":    {status: true, change: []builder.ServiceOption{func(svc *corev1.Service) { svc.Annotations = nil }}},
		"status and a problem from before": {status: true, change: []builder.ServiceOption{builder.DLB("scheduler", "fastest")}},
	} {
		t.Run(name, func(t *testing.T) {
			svc := stored.DeepCopy()
			for _, change := range test.change {
				change(svc)
			}
			var err error
			if test.status {
				err = cluster.Client.Status().Update(t.Context(), svc, client.DryRunAll)
			} else {
				err = cluster.Client.Update(t.Context(), svc, client.DryRunAll)
			}
			if (err != nil && !refusedByPolicy(err)) || refusedByPolicy(err) != test.refused {
				t.Errorf("got %v, want refused: %v", err, test.refused)
			}
		})
	}
}

// Defaults are added to other annotations when a Service becomes a load balancer, and only then.
func TestDefaultsOfUpdates(t *testing.T) {
	const namespace = "becoming"
	addDefaults(t, inNamespace(t, namespace))
	const other = "example.com/team"
	clusterIP := builder.Spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeClusterIP })
	svc := service(namespace, clusterIP, builder.Annotation(other, "edge"), builder.DLB("listener-maxqps", "7"))
	if err := cluster.Client.Create(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	if len(svc.Annotations) != 2 {
		t.Errorf("a Service of another type has %v", svc.Annotations)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := env.Poll(ctx, "the API server to write defaults", func(ctx context.Context) error {
		annotated := service(namespace, builder.Annotation(other, "edge"))
		annotated.Name = "probe"
		err := cluster.Client.Create(ctx, annotated, client.DryRunAll)
		if err == nil && (annotated.Annotations[other] != "edge" || len(annotated.Annotations) != 1+len(written())) {
			err = fmt.Errorf("annotations %v", annotated.Annotations)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	if err := cluster.Client.Update(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	if got := svc.Annotations; len(got) != 1+len(written()) || got[other] != "edge" || got[loadbalancer.Prefix+"listener-maxqps"] != "7" {
		t.Errorf("a Service that became a load balancer has %v", got)
	}
	svc.Annotations = map[string]string{other: "edge"}
	if err := cluster.Client.Update(t.Context(), svc); err != nil || len(svc.Annotations) != 1 {
		t.Errorf("a load balancer without its defaults has %v, %v", svc.Annotations, err)
	}
}
