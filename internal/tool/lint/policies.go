package lint

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/tool/suppress"
)

// given is a policy with the findings that concern only itself.
type given struct {
	object   *manifest.Object
	name     report.Object
	policy   *policy.Policy
	findings []finding.Finding
	mistakes []manifest.Mistake
	// annotations are those of the object.
	annotations map[string]string
}

// Governs reports whether an object is a policy, or a Namespace, which policies may select.
func Governs(o *manifest.Object) bool { return o.Kind != kindService && used(o.APIVersion, o.Kind) }

// Namespaces returns the labels of the Namespaces among the objects, by name.
func Namespaces(objects []*manifest.Object) map[string]map[string]string {
	namespaces := map[string]map[string]string{}
	for _, o := range objects {
		if o.Kind == kindNamespace && used(o.APIVersion, o.Kind) {
			namespace, _ := manifest.Decode[corev1.Namespace](o)
			namespaces[namespace.Name] = Labels(map[string]map[string]string{namespace.Name: namespace.Labels},
				namespace.Name)
		}
	}
	return namespaces
}

// Policies compiles the policies among the objects, and validates each one by itself and against the others, as
// admission does.
func (l *Linter) Policies(
	objects []*manifest.Object, namespaces map[string]map[string]string,
) ([]*policy.Policy, []report.Result) {
	var all []given
	var policies []*policy.Policy
	for _, o := range objects {
		if g, ok := l.compile(o); ok {
			all = append(all, g)
			policies = append(policies, g.policy)
		}
	}
	results := make([]report.Result, len(all))
	for i, g := range all {
		findings := g.findings
		if appliesToAny(g.policy, namespaces) {
			findings = slices.Concat(findings, policy.Against(g.policy, policies, namespaces))
		}
		results[i] = result(g.object, g.name, finding.Merge(findings), g.mistakes)
		results[i].Ignores = suppress.Annotations(g.annotations, g.object.Find)
	}
	return policies, results
}

func (l *Linter) compile(o *manifest.Object) (given, bool) {
	g := given{object: o}
	if !used(o.APIVersion, o.Kind) {
		return g, false
	}
	switch o.Kind {
	case v1alpha1.KindLoadBalancerPolicy:
		p, mistakes := manifest.Decode[v1alpha1.LoadBalancerPolicy](o)
		g.name, g.mistakes = report.Object{Kind: o.Kind, Namespace: p.Namespace, Name: p.Name}, mistakes
		p.Namespace = l.namespace(p.Namespace)
		g.policy, g.findings = policy.Compile(p)
		g.annotations = p.Annotations
		g.mistakes = append(g.mistakes, emptyPatterns(o, p.Spec.Rules)...)
	case v1alpha1.KindClusterLoadBalancerPolicy:
		p, mistakes := manifest.Decode[v1alpha1.ClusterLoadBalancerPolicy](o)
		g.name, g.mistakes = report.Object{Kind: o.Kind, Name: p.Name}, mistakes
		g.policy, g.findings = policy.Compile(p)
		g.annotations = p.Annotations
		g.mistakes = append(g.mistakes, emptyPatterns(o, p.Spec.Rules)...)
	default:
		return g, false
	}
	return g, true
}

// emptyPatterns reports patterns that are set to the empty string, which only the source shows.
func emptyPatterns(o *manifest.Object, rules []v1alpha1.Rule) []manifest.Mistake {
	var mistakes []manifest.Mistake
	for i, r := range rules {
		path := fmt.Sprintf("spec.rules[%d].pattern", i)
		if r.Pattern == "" && o.Has(path) {
			mistakes = append(mistakes, manifest.Mistake{
				Path: path, Message: "must not be empty", Remedy: "remove it, or set an expression", Place: o.Find(path),
			})
		}
	}
	return mistakes
}

// appliesToAny reports whether the policy applies to a known namespace. If the manifests contain no Namespaces, a
// policy that selects none of them must not be reported: only the cluster knows its namespaces.
func appliesToAny(p *policy.Policy, namespaces map[string]map[string]string) bool {
	if p.Key().Kind == v1alpha1.KindLoadBalancerPolicy {
		return true
	}
	for name, labels := range namespaces {
		if p.Selects(name, labels) {
			return true
		}
	}
	return false
}
