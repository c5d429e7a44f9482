package review

import (
	"cmp"
	"fmt"
	"slices"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
)

// defaulted is a Service with its defaults.
type defaulted struct {
	*catalog.Parsed
	defaults []policy.Default
	// findings holds the findings of the catalogs if validated is true.
	findings  []finding.Finding
	validated bool
}

func (d *defaulted) validate() []finding.Finding {
	if d.validated {
		return d.findings
	}
	return d.Validate()
}

// complete adds the defaults that a Service gets without another write of its annotations.
func (r Reviewer) complete(p *catalog.Parsed, policies []*policy.Policy) *defaulted {
	if r.alone {
		return &defaulted{Parsed: p}
	}
	return withDefaults(p, policies, false)
}

// explainUnwritten completes the findings about missing annotations that have a default: the mutating webhook should
// have written it, so the author of the Service need not know the key.
func explainUnwritten(findings []finding.Finding, p *catalog.Parsed, policies []*policy.Policy) []finding.Finding {
	var lost map[string]string
	for i := range findings {
		f := &findings[i]
		if f.Value != "" {
			continue // the Service sets the annotation
		}
		if lost == nil {
			lost = map[string]string{}
			for _, d := range withDefaults(p, policies, true).defaults {
				lost[catalog.Path(d.Key)] = d.Value
			}
		}
		if value, isDefault := lost[f.Field]; isDefault {
			f.Message += fmt.Sprintf("; its default %q could not be added", finding.Shorten(value, longestDefault))
			f.Remedy = "try again, or set the annotation"
		}
	}
	return findings
}

// longestDefault limits the length of a default in a message.
const longestDefault = 64

// withDefaults adds the defaults that fit a Service: none that would make it invalid, such as a certificate for a load
// balancer without https. A default that does not fit does not affect the others. Of two defaults that exclude each
// other, the one of the policy with precedence applies. Built-in defaults always fit.
func withDefaults(p *catalog.Parsed, policies []*policy.Policy, admission bool) *defaulted {
	return fitting(p, policy.Defaults(p, policies, admission), policies)
}

// fitting adds those of the defaults that fit a Service.
func fitting(p *catalog.Parsed, defaults []policy.Default, policies []*policy.Policy) *defaulted {
	if len(defaults) == 0 {
		return &defaulted{Parsed: p}
	}
	all := &defaulted{Parsed: p.With(policy.Values(defaults)), defaults: defaults}
	if !slices.ContainsFunc(defaults, policy.Default.FromPolicy) {
		return all
	}
	f := &fit{service: p.WithoutUnknown(), left: maxFitting}
	var findings []finding.Finding
	if f.service == p {
		findings = all.Validate()
		all.findings, all.validated = findings, true
	} else {
		findings = f.service.With(policy.Values(defaults)).Validate()
	}
	if !finding.Deny(findings) {
		return all
	}
	f.before = f.service.Validate()
	if !finding.Introduces(f.before, findings) {
		return all
	}
	// -1 for a built-in default, and for one that was written earlier.
	rank := func(d policy.Default) int { return slices.Index(policies, d.By) }
	candidates := slices.Clone(defaults)
	slices.SortStableFunc(candidates, func(a, b policy.Default) int { return cmp.Compare(rank(a), rank(b)) })
	f.add(candidates)
	for f.retry() || f.addPair() {
		// Other defaults may fit now.
	}
	slices.SortFunc(f.added, func(a, b policy.Default) int { return cmp.Compare(a.Key, b.Key) })
	return &defaulted{Parsed: p.With(policy.Values(f.added)), defaults: f.added}
}

// fit divides defaults into those that fit a Service together and those that do not.
type fit struct {
	// service has no unknown keys: whether a default fits must not depend on what they were meant to be.
	service *catalog.Parsed
	// before holds the findings of the Service without defaults.
	before          []finding.Finding
	added, rejected []policy.Default
	// left is how many values may still be validated.
	left int
}

// maxFitting bounds the search for the defaults that fit, in validated values: hundreds of attempts for an ordinary
// Service. What does not fit by then is not added.
const maxFitting = 4_000

// fits reports whether more defaults, together with those added so far, introduce no error.
func (f *fit) fits(more []policy.Default) bool {
	if f.left -= 10 + f.service.Size(); f.left < 0 {
		return false
	}
	with := f.service.With(policy.Values(slices.Concat(f.added, more)))
	return !finding.Introduces(f.before, with.Validate())
}

// add adds the defaults that fit. It tries many together, because most defaults fit.
func (f *fit) add(candidates []policy.Default) {
	switch half := len(candidates) / 2; {
	case len(candidates) == 0:
	case f.fits(candidates):
		f.added = append(f.added, candidates...)
	case half == 0:
		f.rejected = append(f.rejected, candidates...)
	default:
		f.add(candidates[:half])
		f.add(candidates[half:])
	}
}

// retry tries the rejected defaults again, and reports whether any of them fits now.
func (f *fit) retry() bool {
	rejected := f.rejected
	f.rejected = nil
	f.add(rejected)
	return len(f.rejected) < len(rejected)
}

// addPair adds the first two rejected defaults that fit only together, such as https and its certificate.
func (f *fit) addPair() bool {
	for i, one := range f.rejected {
		for k := i + 1; k < len(f.rejected); k++ {
			if pair := []policy.Default{one, f.rejected[k]}; f.fits(pair) {
				f.added = append(f.added, pair...)
				f.rejected = slices.Delete(slices.Delete(f.rejected, k, k+1), i, i+1)
				return true
			}
		}
	}
	return false
}
