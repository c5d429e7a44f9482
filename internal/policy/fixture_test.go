package policy_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/policy"
)

// namespaced compiles a policy of the namespace shop from its spec; DLB- stands for the prefix.
func namespaced(t testing.TB, name, spec string) (*policy.Policy, []finding.Finding) {
	t.Helper()
	p := &v1alpha1.LoadBalancerPolicy{}
	p.Namespace, p.Name = "shop", name
	decode(t, spec, &p.Spec)
	return policy.Compile(p)
}

// cluster does the same for a cluster policy.
func cluster(t testing.TB, name, spec string) (*policy.Policy, []finding.Finding) {
	t.Helper()
	p := &v1alpha1.ClusterLoadBalancerPolicy{}
	p.Name = name
	decode(t, spec, &p.Spec)
	return policy.CompileCluster(p)
}

func decode(t testing.TB, text string, into any) {
	t.Helper()
	text = strings.ReplaceAll(text, "DLB-", loadbalancer.Prefix)
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

// good returns a policy without errors; kind is LoadBalancerPolicy or ClusterLoadBalancerPolicy.
func good(t testing.TB, kind, name, spec string) *policy.Policy {
	t.Helper()
	compile := namespaced
	if kind == v1alpha1.KindClusterLoadBalancerPolicy {
		compile = cluster
	}
	p, findings := compile(t, name, spec)
	if errs := finding.Errors(findings); len(errs) > 0 {
		t.Fatalf("%s: %s", name, finding.Summary(errs))
	}
	return p
}

const (
	ofNamespace = v1alpha1.KindLoadBalancerPolicy
	ofCluster   = v1alpha1.KindClusterLoadBalancerPolicy
)

// short abbreviates the prefixes that all texts share.
func short(text string) string {
	text = strings.ReplaceAll(text, loadbalancer.Prefix, "DLB-")
	return strings.ReplaceAll(text, "metadata.annotations", "")
}

// parse parses a Service by the catalog of Quaymaster's own controller.
func parse(svc *corev1.Service) *catalog.Parsed { return catalog.Own("mycloud.io/dlb").Parse(svc) }
