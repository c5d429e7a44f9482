package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
)

// Judge applies policies to Services.
type Judge struct {
	// Options tell which Services are ours: only on these do policies say anything about keys of the DLB.
	Options loadbalancer.Options
	// Catalogs are those of other clouds by which Services are judged, too.
	Catalogs catalog.Set
}

// Admit judges a Service at admission, by the rules of the DLB, of other clouds, and by the policies that apply to its namespace. oldSvc is nil on
// creation. A load balancer that is updated is judged with the defaults that the controllers will give it: it may need one of
// them, such as the certificate of a new listener.
func (j Judge) Admit(oldSvc, newSvc *corev1.Service, applicable []*Policy) []finding.Finding {
	j = j.chosen(applicable)
	if !isLoadBalancer(newSvc) || len(applicable) == 0 {
		return j.clouds(oldSvc, newSvc)
	}
	if isLoadBalancer(oldSvc) {
		oldSvc, _ = j.Complete(oldSvc, applicable)
		newSvc, _ = j.Complete(newSvc, applicable)
	}
	return finding.Merge(slices.Concat(j.clouds(oldSvc, newSvc), j.review(oldSvc, newSvc, applicable)))
}

// Review judges a Service by the policies alone, with the defaults that it lacks and will get: on an update nobody gives it those
// that only other clouds read. oldSvc is nil on creation. What was so before only warns.
func (j Judge) Review(oldSvc, newSvc *corev1.Service, applicable []*Policy) []finding.Finding {
	if len(applicable) == 0 {
		return nil
	}
	if isLoadBalancer(oldSvc) {
		oldSvc, _ = j.Complete(oldSvc, applicable)
		newSvc, _ = j.Complete(newSvc, applicable)
	}
	return j.review(oldSvc, newSvc, applicable)
}

// review is Review of an update whose Services have their defaults already.
func (j Judge) review(oldSvc, newSvc *corev1.Service, applicable []*Policy) []finding.Finding {
	if isLoadBalancer(oldSvc) {
		return finding.Ratchet(j.all(oldSvc, applicable), j.all(newSvc, applicable))
	}
	newSvc, _ = j.complete(newSvc, applicable, true)
	return finding.Merge(j.all(newSvc, applicable))
}

func isLoadBalancer(svc *corev1.Service) bool {
	return svc != nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// Violations are what in a Service breaks the rules of a policy. The Service has its defaults already.
func (j Judge) Violations(svc *corev1.Service, p *Policy) []finding.Finding {
	return finding.Merge(j.all(svc, []*Policy{p}))
}

// MaxQPS is the sum of the limits of all listeners of a Service, 0 for one that is not ours.
func (j Judge) MaxQPS(svc *corev1.Service) int64 {
	if !loadbalancer.Owned(svc, j.Options) {
		return 0
	}
	return loadbalancer.Read(svc).MaxQPS()
}

// all judges by every rule of every policy. Its findings name one listener each, for the ratchet.
func (j Judge) all(svc *corev1.Service, applicable []*Policy) []finding.Finding {
	if !isLoadBalancer(svc) {
		return nil
	}
	var readings *loadbalancer.Readings
	if loadbalancer.Owned(svc, j.Options) {
		readings = loadbalancer.Read(svc)
	}
	var findings []finding.Finding
	for _, p := range applicable {
		for i := range p.rules {
			r := &p.rules[i]
			switch {
			case r.descriptor == nil:
				findings = append(findings, r.reviewForeign(svc, p)...)
			case readings != nil:
				findings = append(findings, r.review(readings, p)...)
			}
		}
	}
	return findings
}

// review judges every value of a key of the DLB, those that hold by default included: without that, a Service that keeps
// silent would get what a policy wants to keep from it.
func (r *rule) review(readings *loadbalancer.Readings, p *Policy) []finding.Finding {
	var findings []finding.Finding
	for _, reading := range readings.Of(r.descriptor) {
		switch {
		case reading.Set:
			for _, b := range r.judge(reading.Raw, reading.Value) {
				f := b.finding(p, r)
				f.Value = reading.Raw
				findings = append(findings, r.at(f, reading)...)
			}
		case r.required:
			findings = append(findings, r.at(r.missing(p), reading)...)
		case r.forbidden:
		case reading.Value.IsValid():
			for _, b := range r.judge(reading.Raw, reading.Value) {
				f := b.finding(p, r)
				f.Type = field.ErrorTypeRequired
				f.Message = "must be set: without it " + reading.Raw + " holds, but it " + f.Message
				if r.message == "" {
					f.Remedy = "add the key"
				}
				findings = append(findings, r.at(f, reading)...)
			}
		}
	}
	return findings
}

// at makes a finding of each listener that the value holds for.
func (r *rule) at(f finding.Finding, reading loadbalancer.Reading) []finding.Finding {
	f.Field = reading.Field
	if len(reading.Listeners) == 0 {
		return []finding.Finding{f}
	}
	all := make([]finding.Finding, len(reading.Listeners))
	for i, listener := range reading.Listeners {
		all[i] = f
		all[i].Listeners = []string{listener}
	}
	return all
}

// reviewForeign judges an annotation of which nothing is known but its text.
func (r *rule) reviewForeign(svc *corev1.Service, p *Policy) []finding.Finding {
	raw, set := svc.Annotations[r.key]
	if !set {
		if r.required {
			f := r.missing(p)
			f.Field = annotationPath(r.key)
			return []finding.Finding{f}
		}
		return nil
	}
	var findings []finding.Finding
	for _, b := range r.judgeText(raw) {
		f := b.finding(p, r)
		f.Field, f.Value = annotationPath(r.key), raw
		findings = append(findings, f)
	}
	return findings
}

func (r *rule) missing(p *Policy) finding.Finding {
	return breach{idRequired, field.ErrorTypeRequired, r.path.Child("required"), "be set as required", "add the key"}.finding(p, r)
}

func annotationPath(key string) string {
	return field.NewPath("metadata", "annotations").Key(key).String()
}
