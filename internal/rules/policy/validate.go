package policy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
)

// Validate validates a Service with its defaults by every rule of every policy. Each finding names at most one
// listener, so that findings of an update can be compared with those of the old Service.
func Validate(p *catalog.Parsed, applicable []*Policy) []finding.Finding {
	if !p.LoadBalancer() {
		return nil
	}
	var findings []finding.Finding
	w := newWork()
	for _, policy := range applicable {
		if policy.inactive {
			findings = append(findings, policy.refusal())
		}
		for i := range policy.rules {
			r := &policy.rules[i]
			before := len(findings)
			findings = append(findings, r.validate(p, policy, w)...)
			if !w.spend((len(findings) - before) * workPerFinding) {
				// Each rule may have a finding for each of thousands of listeners.
				return append(findings[:min(len(findings), mostBeforeCut)], r.tooLong(policy))
			}
		}
	}
	return findings
}

// mostBeforeCut is how many findings are reported if there are too many to validate the rest.
const mostBeforeCut = 100

// refusal returns the finding that the rules of an inactive policy are unknown.
func (p *Policy) refusal() finding.Finding {
	f := breach{
		IDInactive, field.ErrorTypeForbidden, spec, "no load balancer is accepted because of the size of",
		"ask its author to shorten it, or to remove other policies of the kind",
	}.finding(p, &rule{})
	f.Field = finding.Annotations
	return f
}

// tooLong returns the finding that rules were not applied because the work is exhausted.
func (r *rule) tooLong(policy *Policy) finding.Finding {
	f := breach{
		IDTooLong, field.ErrorTypeInvalid, r.path, "are too many or too long to be validated by the policies up to",
		"shorten the values, or have fewer annotations, ports or policies",
	}.finding(policy, r)
	f.Field = finding.Annotations
	return f
}

// validate validates every value of the rule's key, in every spelling. Of a key that the own catalog does not describe, the
// values are texts.
func (r *rule) validate(p *catalog.Parsed, policy *Policy, w *work) []finding.Finding {
	var findings []finding.Finding
	if r.known != nil {
		v := p.View(r.catalog)
		if v == nil {
			return nil
		}
		w.spend(p.Size() * workPerValue)
		for h := range v.Holding(r.key) {
			if w.exhausted() {
				break
			}
			findings = append(findings, r.validateOne(p.Service, &h, policy, w)...)
		}
		return findings
	}
	set := false
	for _, key := range append([]string{r.key}, p.Aliases(r.key)...) {
		if raw, found := p.Service.Annotations[key]; found {
			set = true
			findings = append(findings, r.validateOne(p.Service, &catalog.Holding{Key: key, Raw: raw, Set: true}, policy, w)...)
		}
	}
	if !set {
		return r.validateOne(p.Service, &catalog.Holding{Key: r.key}, policy, w)
	}
	return findings
}

// validateOne validates a value, which may be a default: otherwise a Service could get a forbidden value by leaving out
// the key.
func (r *rule) validateOne(svc *corev1.Service, h *catalog.Holding, policy *Policy, w *work) []finding.Finding {
	var findings []finding.Finding
	switch {
	case h.Set:
		for _, b := range r.checkSet(h.Raw, h.Value, w) {
			f := b.findingAbout(w.origin(svc, h.Key), policy, r)
			f.Value = h.Raw
			findings = append(findings, at(f, h)...)
		}
	case r.required:
		findings = at(r.missing(policy), h)
	case r.forbidden || h.Value == nil:
	default:
		for _, b := range r.check(h.Raw, h.Value, w) {
			f := b.finding(policy, r)
			f.Subject = catalog.Path(h.Key) + " by default: " + h.Raw
			f.Type = field.ErrorTypeRequired
			f.Message = "must be set: the default " + h.Raw + " " + f.Message
			if r.message == "" {
				f.Remedy = "set the annotation"
			}
			findings = append(findings, at(f, h)...)
		}
	}
	return findings
}

// at returns a finding for each listener that the value applies to.
func at(f finding.Finding, h *catalog.Holding) []finding.Finding {
	f.Field = catalog.Path(h.Key)
	listeners := h.Listeners()
	if len(listeners) == 0 {
		return []finding.Finding{f}
	}
	all := make([]finding.Finding, len(listeners))
	for i, listener := range listeners {
		all[i] = f
		all[i].Listeners = []string{listener}
	}
	return all
}

// findingAbout returns the finding about an annotation that is set. If its value is a recorded default, with this origin,
// the finding does not blame the author of the Service.
func (b breach) findingAbout(origin string, p *Policy, r *rule) finding.Finding {
	f := b.finding(p, r)
	if origin == "" {
		return f
	}
	f.Message = origin + " " + f.Message
	if r.message == "" && b.id != idForbidden {
		f.Remedy = "set the annotation, or change " + AnnotationRefresh + " to get the current default"
	}
	return f
}

func (r *rule) missing(p *Policy) finding.Finding {
	b := breach{
		IDRequired, field.ErrorTypeRequired, r.path.Child("required"), "must be set: required by", "set the annotation",
	}
	return b.finding(p, r)
}
