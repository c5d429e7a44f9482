package policy

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
)

// Against validates a policy against other policies that apply to the same namespaces. namespaces holds the labels of
// all existing namespaces. A default that breaks another policy's rule is an error, because it would never be written.
// The effect of the policy on others is only a warning: the team of one namespace must not be able to prevent the
// cluster's administrator from setting a rule.
func Against(p *Policy, others []*Policy, namespaces map[string]map[string]string) []finding.Finding {
	names, w := selected(p, namespaces), newWork()
	var findings []finding.Finding
	if len(names) == 0 && p.key.Kind == v1alpha1.KindClusterLoadBalancerPolicy {
		findings = append(findings, finding.Finding{
			ID: idSelectsNothing, Severity: finding.Warning, Field: spec.Child("namespaceSelector").String(),
			Message: "selects no namespace", Remedy: "label namespaces, or correct the selector",
		})
	}
	if p.key.Kind == v1alpha1.KindLoadBalancerPolicy {
		findings = append(findings, excess(p, others)...)
	}
	for _, other := range others {
		if other.key == p.key {
			continue
		}
		if len(findings) >= mostBeforeCut || w.exhausted() {
			break // an answer shows no more, and there may be thousands of policies
		}
		at := slices.IndexFunc(names, func(name string) bool { return other.Selects(name, namespaces[name]) })
		if at < 0 {
			continue
		}
		w.spend(other.size.weight() / workOfWeight)
		other = other.open()
		origin := fmt.Sprintf("%s, which also applies to namespace %q", other.Name(), names[at])
		findings = append(findings, defaultsAgainst(p, other, origin, w)...)
		findings = append(findings, rulesAgainst(p, other, origin, w)...)
		findings = append(findings, conflicts(p, other)...)
	}
	return finding.Merge(findings)
}

// excess reports that the policies of a namespace exceed its limit.
func excess(p *Policy, others []*Policy) []finding.Finding {
	n, total := 1, p.size
	for _, other := range others {
		if other.key.Namespace == p.key.Namespace && other.key.Kind == p.key.Kind && other.key != p.key {
			n, total = n+1, total.plus(other.size)
		}
	}
	most := p.key.limit()
	if n <= most.policies && total.within(most.size) || !p.size.within(most.size) { // Compile reports one that is too large
		return nil
	}
	return []finding.Finding{tooLarge(p, n, total)}
}

// tooLarge returns the finding that a policy, or all of its namespace, exceed the limit.
func tooLarge(p *Policy, n int, total size) finding.Finding {
	most, message := p.key.limit(), ""
	switch {
	case n > most.policies:
		message = fmt.Sprintf("at most %d policies of the kind; with this one, it has %d", most.policies, n)
	case total.bytes > most.size.bytes:
		message = fmt.Sprintf("policies of at most %d bytes in all; they have %d", most.size.bytes, total.bytes)
	default:
		message = fmt.Sprintf("policies with patterns of at most %d steps in all; they have %d or more", most.size.steps, total.steps)
	}
	return finding.Finding{
		ID: idTooLarge, Check: idTooLarge, Severity: finding.Error, Type: field.ErrorTypeForbidden, Field: spec.String(),
		Message: "a namespace must have " + message, Remedy: "merge or shorten policies, or delete some",
	}
}

// selected returns the namespaces that the policy applies to, in order.
func selected(p *Policy, namespaces map[string]map[string]string) []string {
	if p.key.Kind == v1alpha1.KindLoadBalancerPolicy {
		// The namespace may be missing in namespaces if it is new.
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

// defaultsAgainst reports the policy's defaults that break a rule of another policy.
func defaultsAgainst(p, other *Policy, origin string, w *work) []finding.Finding {
	var findings []finding.Finding
	for _, key := range p.keys {
		for _, b := range known(other.breaches(key, nil, p.defaults[key], w)) {
			f := finding.Finding{
				ID: idDefault, Check: idDefault + ": " + b.message + " " + other.Name(), Severity: finding.Error,
				Type:  field.ErrorTypeInvalid,
				Field: spec.Child("defaults").Key(key).String(), Value: p.defaults[key],
				Message: fmt.Sprintf("%s %s of %s", b.message, b.path, origin), Remedy: "change the default",
			}
			if severity(other.enforcement) == finding.Audit {
				f.Severity = finding.Warning
			}
			findings = append(findings, f)
		}
	}
	return findings
}

// rulesAgainst reports the defaults of another policy that break a rule of the policy.
func rulesAgainst(p, other *Policy, origin string, w *work) []finding.Finding {
	if severity(p.enforcement) == finding.Audit {
		return nil
	}
	var findings []finding.Finding
	for _, key := range other.keys {
		for _, b := range known(p.breaches(key, nil, other.defaults[key], w)) {
			findings = append(findings, finding.Finding{
				ID: idDefaultOfOthers, Severity: finding.Warning, Field: b.path.String(),
				Message: fmt.Sprintf("the default %s of %s, breaks the rule and will no longer be written",
					other.defaults[key], origin),
				Remedy: "change that default",
			})
		}
	}
	return findings
}

// known returns the breaches without those that are only assumed, because the work is exhausted: an expensive policy must
// not make another one look wrong.
func known(breaches []breach) []breach {
	return slices.DeleteFunc(breaches, func(b breach) bool { return b.id == IDTooLong })
}

// conflicts reports defaults whose precedence depends only on the names of their policies.
func conflicts(p, other *Policy) []finding.Finding {
	if rank(p, other) != 0 {
		return nil
	}
	winner := p
	if precedence(other, p) < 0 {
		winner = other
	}
	var findings []finding.Finding
	for _, key := range p.keys {
		value, set := other.defaults[key]
		if !set || value == p.defaults[key] {
			continue
		}
		relation, remedy := ", which has the same priority", "set different priorities, or the same default"
		if p.key.Kind == v1alpha1.KindLoadBalancerPolicy {
			relation, remedy = " in the same namespace", "remove one of the two"
		}
		f := finding.Finding{
			ID: idConflict, Severity: finding.Warning, Field: spec.Child("defaults").Key(key).String(),
			Value: p.defaults[key], Remedy: remedy,
			Message: fmt.Sprintf("conflicts with the default %s of %s%s; %s wins, the first by name",
				value, other.Name(), relation, winner.Name()),
		}
		findings = append(findings, f)
	}
	return findings
}
