package review

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/visible"
)

// Default adds the defaults that a Service gets without another write of its annotations: those that the controllers apply.
func (r Reviewer) Default(p *catalog.Parsed, policies []*policy.Policy) *catalog.Parsed {
	if r.alone {
		return p
	}
	return withDefaults(p, policies, false)
}

// explainUnwritten completes the findings about missing annotations that have a default: the mutating webhook should
// have written it, so the author of the Service need not know the key.
func explainUnwritten(findings []finding.Finding, p *catalog.Parsed, policies []*policy.Policy) []finding.Finding {
	if !slices.ContainsFunc(findings, func(f finding.Finding) bool { return f.Value == "" }) {
		return findings // the Service sets the annotations
	}
	lost := map[string]string{}
	_, defaults := fitting(p, policy.Defaults(p, policies, true))
	for _, d := range defaults {
		lost[catalog.Path(d.Key)] = d.Value
	}
	for i := range findings {
		f := &findings[i]
		if value, isDefault := lost[f.Field]; isDefault && f.Value == "" {
			f.Message += fmt.Sprintf("; its default %q could not be added", visible.Shorten(value, longestDefault))
			f.Remedy = "try again, or set the annotation"
		}
	}
	return findings
}

// longestDefault limits the length of a default in a message.
const longestDefault = 64

// withDefaults adds the defaults that fit a Service. admission is as in policy.Defaults.
func withDefaults(p *catalog.Parsed, policies []*policy.Policy, admission bool) *catalog.Parsed {
	with, _ := fitting(p, policy.Defaults(p, policies, admission))
	return with
}

// fitting adds those of the defaults that fit a Service: none that would make it invalid, such as a certificate for a
// load balancer without https. They are in the order of precedence: of two that exclude each other, or have the same
// key, the first one applies. Most defaults fit, so that all are tried together first.
func fitting(p *catalog.Parsed, defaults []policy.Default) (*catalog.Parsed, []policy.Default) {
	all := p.With(policy.Values(defaults))
	if !slices.ContainsFunc(defaults, policy.Default.FromPolicy) {
		return all, defaults
	}
	// Whether a default fits must not depend on what unknown keys were meant to be.
	service, with := p.WithoutUnknown(), all
	if service != p {
		with = service.With(policy.Values(defaults))
	}
	findings := with.Validate()
	if !finding.Deny(findings) {
		return all, defaults
	}
	f := &fit{with: service, before: service.Validate(), left: maxEffort, base: baseEffort(p.Service)}
	if !finding.Introduces(f.before, findings) {
		return all, defaults
	}
	f.addAll(defaults)
	return p.With(policy.Values(f.added)), f.added
}

// fit collects the defaults that fit a Service together.
type fit struct {
	// with is the Service with the defaults added so far that are validated.
	with *catalog.Parsed
	// before holds the findings of the Service without defaults.
	before []finding.Finding
	added  []policy.Default
	// open holds the defaults of keys that are not decided, and done the keys that have one.
	open map[string]policy.Default
	done map[string]bool
	// left is what all attempts may still cost, in about microseconds, and base what each costs for the bytes.
	left, base int
}

// maxEffort bounds the search for the defaults that fit: hundreds of attempts for an ordinary Service, which take about
// 10 ms. What is not tried by then is not added.
const maxEffort = 4_000

// baseEffort estimates what validating a Service costs, apart from the number of its annotations and ports.
func baseEffort(svc *corev1.Service) int {
	const base, bytesPerUnit = 10, 100
	bytes := 0
	for key, value := range svc.Annotations {
		bytes += len(key) + len(value)
	}
	for _, text := range svc.Spec.LoadBalancerSourceRanges {
		bytes += len(text)
	}
	return base + bytes/bytesPerUnit
}

// addAll tries the defaults one by one. One that does not fit alone is tried together with those that it requires, such
// as https with its certificate. Those that no catalog validates always fit, and so do built-in ones.
func (f *fit) addAll(defaults []policy.Default) {
	f.open, f.done = make(map[string]policy.Default, len(defaults)), make(map[string]bool, len(defaults))
	for _, d := range slices.Backward(defaults) {
		f.open[d.Key] = d
	}
	for _, d := range defaults {
		if f.done[d.Key] {
			continue
		}
		f.open[d.Key] = d
		if !d.FromPolicy() || !f.with.Concerns(d.Key) {
			f.take(d)
			continue
		}
		if f.add(d) {
			continue
		}
		if group := f.required(d); len(group) == 1 || !f.add(group...) {
			delete(f.open, d.Key)
		}
	}
}

func (f *fit) take(group ...policy.Default) {
	f.added = append(f.added, group...)
	for _, d := range group {
		f.done[d.Key] = true
		delete(f.open, d.Key)
	}
}

// required returns a default with those that it requires.
func (f *fit) required(d policy.Default) []policy.Default {
	group := []policy.Default{d}
	if f.left < 0 {
		return group
	}
	for _, key := range f.with.Required(d.Key, func(key string) (value string, offered bool) {
		other, offered := f.open[key]
		return other.Value, offered
	}) {
		group = append(group, f.open[key])
	}
	return group
}

// add adds defaults if they introduce no error together.
func (f *fit) add(group ...policy.Default) bool {
	if f.left -= f.base + f.with.Size(); f.left < 0 {
		return false
	}
	with := f.with.With(policy.Values(group))
	if finding.Introduces(f.before, with.Validate()) {
		return false
	}
	f.with = with
	f.take(group...)
	return true
}
