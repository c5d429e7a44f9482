package builder

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/policy"
)

// Policy compiles a policy of the namespace shop, or of the cluster, from its spec in YAML, in which DLB- stands for
// the prefix. kind is LoadBalancerPolicy or ClusterLoadBalancerPolicy.
func Policy(t testing.TB, kind, name, spec string) (*policy.Policy, []finding.Finding) {
	t.Helper()
	spec = strings.ReplaceAll(spec, "DLB-", loadbalancer.Prefix)
	decode := func(into any) {
		t.Helper()
		if err := yaml.UnmarshalStrict([]byte(spec), into); err != nil {
			t.Fatal(err)
		}
	}
	if kind == v1alpha1.KindClusterLoadBalancerPolicy {
		p := &v1alpha1.ClusterLoadBalancerPolicy{}
		p.Name = name
		decode(&p.Spec)
		return policy.Compile(p)
	}
	p := &v1alpha1.LoadBalancerPolicy{}
	p.Namespace, p.Name = "shop", name
	decode(&p.Spec)
	return policy.Compile(p)
}

// ValidPolicy returns a policy without errors.
func ValidPolicy(t testing.TB, kind, name, spec string) *policy.Policy {
	t.Helper()
	p, findings := Policy(t, kind, name, spec)
	if errs := finding.Errors(findings); len(errs) > 0 {
		t.Fatalf("%s: %s", name, finding.Summary(errs))
	}
	return p
}

// Short abbreviates the prefixes that the texts of findings share.
func Short(text string) string {
	text = strings.ReplaceAll(text, loadbalancer.Prefix, "DLB-")
	return strings.ReplaceAll(text, "metadata.annotations", "")
}
