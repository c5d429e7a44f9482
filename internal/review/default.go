package review

import (
	"cmp"
	"slices"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
)

// defaulted is a Service with its defaults.
type defaulted struct {
	*catalog.Parsed
	given []policy.Default
	// findings are those of the catalogs, if they are known already.
	findings []finding.Finding
	known    bool
}

func (d *defaulted) validate() []finding.Finding {
	if d.known {
		return d.findings
	}
	return d.Validate()
}

// withDefaults gives a Service the defaults that fit it: none that would make it invalid, such as a certificate for a load balancer
// without https. That one does not fit says nothing about the others. Of two that exclude each other, the one of the policy that
// comes first stays. Built-in defaults always fit.
func withDefaults(p *catalog.Parsed, policies []*policy.Policy, admission bool) *defaulted {
	given := policy.Defaults(p, policies, admission)
	all := &defaulted{Parsed: p.With(policy.Values(given)), given: given}
	if !slices.ContainsFunc(given, func(d policy.Default) bool { return d.By != nil }) {
		return all
	}
	f := &fit{service: p.Recognised()}
	var findings []finding.Finding
	if f.service == p {
		findings = all.Validate()
		all.findings, all.known = findings, true
	} else {
		findings = f.service.With(policy.Values(given)).Validate()
	}
	if len(finding.Errors(findings)) == 0 {
		return all
	}
	f.before = f.service.Validate()
	if len(finding.Introduced(f.before, findings)) == 0 {
		return all
	}
	rank := func(d policy.Default) int { return slices.Index(policies, d.By) } // -1 is the built-in ones
	offered := slices.Clone(given)
	slices.SortStableFunc(offered, func(a, b policy.Default) int { return cmp.Compare(rank(a), rank(b)) })
	f.take(offered)
	for f.again() || f.pair() {
		// What has been taken may have made room for more.
	}
	slices.SortFunc(f.taken, func(a, b policy.Default) int { return cmp.Compare(a.Key, b.Key) })
	return &defaulted{Parsed: p.With(policy.Values(f.taken)), given: f.taken}
}

// fit divides defaults into those that fit a Service together and those that are left over.
type fit struct {
	// service has no unknown keys of our own: a default must not depend on what they were meant to be.
	service *catalog.Parsed
	// before are the Service's own problems.
	before      []finding.Finding
	taken, left []policy.Default
}

// fits reports whether defaults introduce no error, together with those that are taken.
func (f *fit) fits(more []policy.Default) bool {
	with := f.service.With(policy.Values(slices.Concat(f.taken, more)))
	return len(finding.Introduced(f.before, with.Validate())) == 0
}

// take takes what fits. Most defaults do, so it tries many together.
func (f *fit) take(offered []policy.Default) {
	switch half := len(offered) / 2; {
	case len(offered) == 0:
	case f.fits(offered):
		f.taken = append(f.taken, offered...)
	case half == 0:
		f.left = append(f.left, offered...)
	default:
		f.take(offered[:half])
		f.take(offered[half:])
	}
}

// again retries what is left, and reports whether any of it fits now.
func (f *fit) again() bool {
	left := f.left
	f.left = nil
	f.take(left)
	return len(f.left) < len(left)
}

// pair takes the first two of what is left that fit only together, such as https and its certificate.
func (f *fit) pair() bool {
	for i, one := range f.left {
		for k := i + 1; k < len(f.left); k++ {
			if pair := []policy.Default{one, f.left[k]}; f.fits(pair) {
				f.taken = append(f.taken, pair...)
				f.left = slices.Delete(slices.Delete(f.left, k, k+1), i, i+1)
				return true
			}
		}
	}
	return false
}
