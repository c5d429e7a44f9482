package loadbalancer

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/annotation"
	"quaymaster.dev/internal/finding"
)

// Review judges a Service at admission. oldSvc is nil on creation. What an update did not introduce only warns, unless
// the Service becomes a load balancer by it.
func Review(oldSvc, newSvc *corev1.Service, o Options) []finding.Finding {
	return finding.Of(Catalog, review(oldSvc, newSvc, o))
}

func review(oldSvc, newSvc *corev1.Service, o Options) []finding.Finding {
	if !Owned(newSvc, o) {
		return unowned(newSvc, o)
	}
	is := evaluate(newSvc)
	if !Owned(oldSvc, o) {
		return finding.Merge(is.findings)
	}
	was := evaluate(oldSvc)
	return finding.Ratchet(was.findings, append(is.findings, immutable(was, is)...))
}

// immutable compares effective values, so that writing down a default is no change, and only where the old value was
// good, so that a mistake can be mended.
func immutable(was, is *settings) []finding.Finding {
	var findings []finding.Finding
	for _, d := range known().service {
		inUse := d.Name == keyAdoptID && len(was.svc.Status.LoadBalancer.Ingress) > 0
		if !d.Immutable && !inUse {
			continue
		}
		before, _, _ := was.serviceValue(d.Name)
		after, explicit, ok := is.serviceValue(d.Name)
		if !ok || faulty(was.findings, d) || equal(before, after) {
			continue
		}
		f := finding.Finding{
			ID: idImmutable, Severity: finding.Error, Type: field.ErrorTypeInvalid, Field: annotations.Key(d.Key).String(),
			Message: "must stay " + orNone(before) + ": it is immutable",
			Remedy:  "create a new Service to have it otherwise",
		}
		if inUse {
			f.ID = idAdoptIDInUse
			f.Message = "must stay " + orNone(before) + " while the Service has an address"
		}
		if explicit != nil {
			f.Value = explicit.raw
		}
		findings = append(findings, f)
	}
	return findings
}

func faulty(findings []finding.Finding, d *annotation.Descriptor) bool {
	path := annotations.Key(d.Key).String()
	return slices.ContainsFunc(findings, func(f finding.Finding) bool { return f.Field == path && f.Severity == finding.Error })
}

func equal(a, b annotation.Value) bool {
	if !a.IsValid() || !b.IsValid() {
		return a.IsValid() == b.IsValid()
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

func orNone(v annotation.Value) string {
	if text := v.String(); text != "" {
		return text
	}
	return "unset"
}
