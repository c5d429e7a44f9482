package policy

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/finding"
)

// Against validates a policy against others that apply to the same namespaces. namespaces are all that exist, with their labels.
// A default that breaks another policy's rule is an error, since it would never be written. What the policy does to others is only
// a warning: the team of one namespace must not be able to keep the cluster's administrator from setting a rule.
func Against(p *Policy, others []*Policy, namespaces map[string]map[string]string) []finding.Finding {
	mine := selected(p, namespaces)
	var findings []finding.Finding
	if len(mine) == 0 && p.key.Kind == v1alpha1.KindClusterLoadBalancerPolicy {
		findings = append(findings, finding.Finding{
			ID: idSelectsNothing, Severity: finding.Warning, Field: spec.Child("namespaceSelector").String(),
			Message: "selects no namespace", Remedy: "label namespaces, or correct the selector",
		})
	}
	for _, other := range others {
		if other.key == p.key {
			continue
		}
		at := slices.IndexFunc(mine, func(namespace string) bool { return other.Selects(namespace, namespaces[namespace]) })
		if at < 0 {
			continue
		}
		where := fmt.Sprintf("%s, which also applies to namespace %q", other.Name(), mine[at])
		findings = append(findings, defaultsAgainst(p, other, where)...)
		findings = append(findings, rulesAgainst(p, other, where)...)
		findings = append(findings, conflicts(p, other)...)
	}
	return finding.Merge(findings)
}

// selected are the namespaces that the policy applies to, in order.
func selected(p *Policy, namespaces map[string]map[string]string) []string {
	if p.key.Kind == v1alpha1.KindLoadBalancerPolicy {
		// It need not be known already.
		return []string{p.key.Namespace}
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		if p.Selects(name, namespaces[name]) {
			names = append(names, name)
		}
	}
	return names
}

func defaultsAgainst(p, other *Policy, where string) []finding.Finding {
	var findings []finding.Finding
	for _, key := range slices.Sorted(maps.Keys(p.defaults)) {
		for _, b := range other.breaches(key, p.defaults[key]) {
			f := finding.Finding{
				ID: idDefault, Severity: finding.Error, Type: field.ErrorTypeInvalid, Field: spec.Child("defaults").Key(key).String(), Value: p.defaults[key],
				Message: fmt.Sprintf("%s %s of %s", b.message, b.path, where), Remedy: "change the default",
			}
			if severity(other.enforcement) == finding.Audit {
				f.Severity = finding.Warning
			}
			findings = append(findings, f)
		}
	}
	return findings
}

func rulesAgainst(p, other *Policy, where string) []finding.Finding {
	if severity(p.enforcement) == finding.Audit {
		return nil
	}
	var findings []finding.Finding
	for _, key := range slices.Sorted(maps.Keys(other.defaults)) {
		for _, b := range p.breaches(key, other.defaults[key]) {
			findings = append(findings, finding.Finding{
				ID: idDefaultOfOthers, Severity: finding.Warning, Field: b.path.String(),
				Message: fmt.Sprintf("the default %s of %s, breaks the rule and will no longer be written", other.defaults[key], where),
				Remedy:  "change that default",
			})
		}
	}
	return findings
}

// conflicts are defaults between which only the names of their policies decide.
func conflicts(p, other *Policy) []finding.Finding {
	if rank(p, other) != 0 {
		return nil
	}
	winner := p
	if precedence(other, p) < 0 {
		winner = other
	}
	var findings []finding.Finding
	for _, key := range slices.Sorted(maps.Keys(p.defaults)) {
		value, given := other.defaults[key]
		if !given || value == p.defaults[key] {
			continue
		}
		f := finding.Finding{
			ID: idConflict, Severity: finding.Warning, Field: spec.Child("defaults").Key(key).String(), Value: p.defaults[key],
			Message: fmt.Sprintf("conflicts with the default %s of %s, which has the same priority; %s wins, the first by name", value, other.Name(), winner.Name()),
			Remedy:  "set different priorities, or the same default",
		}
		if p.key.Kind == v1alpha1.KindLoadBalancerPolicy {
			f.Message = fmt.Sprintf("conflicts with the default %s of %s in the same namespace; %s wins, the first by name", value, other.Name(), winner.Name())
			f.Remedy = "remove one of the two"
		}
		findings = append(findings, f)
	}
	return findings
}
