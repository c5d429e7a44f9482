package export_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/test/bench/admission/machine"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/corpus"
	"quaymaster.dev/test/harness/process"
)

// annotated returns a change that sets n annotations.
func annotated(n int, annotation func(i int) (key, value string)) builder.ServiceOption {
	return func(svc *corev1.Service) {
		for i := range n {
			builder.Annotation(annotation(i))(svc)
		}
	}
}

// largest returns changes that make a Service as large as the API server accepts it.
func largest(d document.Document) map[string]builder.ServiceOption {
	short := func(i int) (string, string) { return strconv.FormatInt(int64(i), 36), "" }
	prefix := "x"
	if len(d.Annotations) > 0 {
		prefix, _, _ = strings.Cut(d.Annotations[0].Name, "{")
	}
	all := map[string]builder.ServiceOption{
		"annotations of others":              annotated(20_000, short),
		"annotations within the limit":       annotated(990, short),
		"keys of the cloud within the limit": annotated(990, func(i int) (string, string) { return prefix + "." + strconv.Itoa(i), "true" }),
		"long values": annotated(len(d.Annotations), func(i int) (string, string) {
			return d.Annotations[i].Name, strings.Repeat("1,", 100_000/len(d.Annotations))
		}),
	}
	if d.Name == loadbalancer.Catalog {
		all["ports"] = builder.Spec(func(s *corev1.ServiceSpec) {
			s.Ports = nil
			for i := range 10_000 {
				s.Ports = append(s.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(i + 1)})
			}
		})
		all["ranges"] = builder.Spec(func(s *corev1.ServiceSpec) {
			for i := range 60_000 {
				s.LoadBalancerSourceRanges = append(s.LoadBalancerSourceRanges, fmt.Sprintf("10.%d.%d.0/24", i/256, i%256))
			}
		})
	}
	return all
}

// invalid returns for each catalog a Service that its policies refuse, so that they evaluate everything.
func invalid(t *testing.T) map[string]*corev1.Service {
	t.Helper()
	ofDLB, err := corpus.Load()
	if err != nil {
		t.Fatal(err)
	}
	ofOthers, err := corpus.Clouds()
	if err != nil {
		t.Fatal(err)
	}
	services := map[string]*corev1.Service{}
	for _, c := range append(ofDLB, ofOthers...) {
		if c.Catalog == "" {
			c.Catalog = loadbalancer.Catalog
		}
		if c.Namespace == "" && c.Old == nil && c.New != nil && len(c.Causes) > 0 && !unsaid(c.Catalog, c.Causes[0]) && services[c.Catalog] == nil {
			services[c.Catalog] = c.New
		}
	}
	return services
}

// cost returns the CPU time that the API server takes to answer a dry run in a namespace.
func cost(t *testing.T, namespace string, svc *corev1.Service) time.Duration {
	t.Helper()
	i := slices.IndexFunc(cluster.Processes(), func(p *process.Process) bool { return p.Name() == "kube-apiserver" })
	used := func() time.Duration {
		d, err := machine.CPU(cluster.Processes()[i].PID())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	const runs = 3
	before := used()
	for range runs {
		copied := svc.DeepCopy()
		copied.Namespace, copied.Name = namespace, "large"
		if err := cluster.Client.Create(t.Context(), copied, client.DryRunAll); err != nil && !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
	}
	return (used() - before) / runs
}

// Whatever a tenant writes, the policies of a catalog must not cost the API server much more than storing it does: the
// same CPU time again, and what validating as many annotations as they accept takes.
func TestCostOfLargeServices(t *testing.T) {
	const (
		namespace = "without-policies"
		allowed   = 250 * time.Millisecond
	)
	inNamespace(t, namespace)
	services := invalid(t)
	for _, name := range library.BuiltIn().Services() {
		svc := services[name]
		svc.Namespace, svc.Name = name, "large"
		active(t, svc)
		c, _ := library.BuiltIn().Find(name)
		for what, change := range largest(c.Document()) {
			t.Run(name+"/"+what, func(t *testing.T) {
				large := svc.DeepCopy()
				change(large)
				var with, without time.Duration
				// The API server has other work meanwhile.
				for range 3 {
					if with = cost(t, name, large); with <= allowed {
						t.Logf("%v with the policies", with)
						return
					}
					if without = cost(t, namespace, large); with <= 2*without+allowed {
						t.Logf("%v with the policies, %v without", with, without)
						return
					}
				}
				t.Errorf("%v with the policies, %v without", with, without)
			})
		}
	}
}

// A Service beyond the limits is refused, and so is every change of one that was stored before the policies, except
// that it becomes smaller or is not changed.
func TestLargeServices(t *testing.T) {
	const namespace = "large"
	scope := inNamespace(t, namespace)
	many := annotated(1001, func(i int) (string, string) { return "example.com/" + strconv.Itoa(i), "" })
	stored := service(namespace, many)
	if err := cluster.Client.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	for _, b := range exported.Bindings {
		if catalogOf(b.Name) == loadbalancer.Catalog {
			b = b.DeepCopy()
			b.Name, b.Spec.MatchResources = namespace+strings.TrimPrefix(b.Name, "quaymaster-"+loadbalancer.Catalog), scope
			if err := cluster.Client.Create(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	active(t, service(namespace, builder.DLB("scheduler", "fastest")))
	manyPorts := builder.Spec(func(s *corev1.ServiceSpec) {
		s.Ports, s.AllocateLoadBalancerNodePorts = nil, new(bool)
		for i := range 3001 {
			s.Ports = append(s.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Port: int32(i + 1)})
		}
	})
	for name, change := range map[string]builder.ServiceOption{"annotations": many, "ports": manyPorts} {
		svc := service(namespace, change)
		svc.Name = "other"
		err := cluster.Client.Create(t.Context(), svc, client.DryRunAll)
		if !refusedByPolicy(err) || !strings.Contains(err.Error(), name+"; there are more; remove some") {
			t.Errorf("too many %s: %v", name, err)
		}
	}
	for name, test := range map[string]struct {
		change  builder.ServiceOption
		refused bool
	}{
		"label":            {change: func(svc *corev1.Service) { svc.Labels = map[string]string{"tier": "front"} }},
		"smaller":          {change: func(svc *corev1.Service) { delete(svc.Annotations, "example.com/0") }},
		"other type":       {change: builder.Spec(func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeClusterIP })},
		"other annotation": {change: builder.Annotation("example.com/0", "x"), refused: true},
		"invalid":          {change: builder.DLB("scheduler", "fastest"), refused: true},
		"other port":       {change: builder.Spec(func(s *corev1.ServiceSpec) { s.Ports[0].Port++ }), refused: true},
	} {
		svc := stored.DeepCopy()
		test.change(svc)
		if err := cluster.Client.Update(t.Context(), svc, client.DryRunAll); refusedByPolicy(err) != test.refused || !refusedByPolicy(err) && err != nil {
			t.Errorf("%s: %v, want refused: %v", name, err, test.refused)
		}
	}
}
