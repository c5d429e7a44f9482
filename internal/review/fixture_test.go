package review_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/review"
)

var own = review.Own("mycloud.io/dlb")

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
