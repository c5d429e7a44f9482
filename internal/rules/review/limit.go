package review

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/policy"
)

// Validating a Service takes time in proportion to these, so that one of the size that Kubernetes accepts could occupy
// a processor for seconds.
const (
	// MaxAnnotations bounds the annotations of load balancers. The longest catalog has 89, and forms of some for
	// single ports.
	MaxAnnotations = 1000
	// MaxListed bounds the ports, source ranges (those of the annotation, too) and external IPs of load balancers. A cluster
	// has 2768 node ports by default, and clouds allow fewer source ranges.
	MaxListed = 3000
)

// exceeds returns findings if a Service is too large to be validated. Nothing else is reported about it then.
func exceeds(set catalog.Set, svc *corev1.Service) []finding.Finding {
	if svc == nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	var findings []finding.Finding
	add := func(id, path, what string, n, most int) {
		if n > most {
			findings = append(findings, finding.Finding{
				ID: id, Check: id, Severity: finding.Error, Type: field.ErrorTypeTooMany, Field: path,
				Message: fmt.Sprintf("must have at most %d %s; has %d", most, what, n),
				Remedy:  "remove some: a Service with more is not validated",
			})
		}
	}
	if len(svc.Annotations) > MaxAnnotations { // of which some may not concern load balancers
		add(IDTooManyAnnotations, finding.Annotations, "annotations for load balancers", set.Annotations(svc), MaxAnnotations)
	}
	spec := &svc.Spec
	add(IDTooManyPorts, "spec.ports", "ports", len(spec.Ports), MaxListed)
	add(IDTooManySourceRanges, "spec.loadBalancerSourceRanges", "source ranges", len(spec.LoadBalancerSourceRanges), MaxListed)
	// Most catalogs read this annotation, and each of them parses it.
	if n := 1 + strings.Count(svc.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey], ","); n > MaxListed {
		add(IDTooManySourceRanges, catalog.Path(corev1.AnnotationLoadBalancerSourceRangesKey), "source ranges", n, MaxListed)
	}
	add(IDTooManyExternalIPs, "spec.externalIPs", "external IPs", len(spec.ExternalIPs), MaxListed)
	return findings
}

// incomplete are the ids of findings that a Service is not validated completely.
var incomplete = []string{
	IDTooManyAnnotations, IDTooManyPorts, IDTooManySourceRanges, IDTooManyExternalIPs, policy.IDTooLong, policy.IDInactive,
}

// ratchet is finding.Ratchet, except for findings that a Service is not validated completely: an update that changes
// anything could introduce every problem, so that they only count as old if it changes nothing.
func ratchet(oldSvc, newSvc *corev1.Service, old, current []finding.Finding) []finding.Finding {
	if oldSvc == nil || !maps.Equal(oldSvc.Annotations, newSvc.Annotations) || !reflect.DeepEqual(&oldSvc.Spec, &newSvc.Spec) {
		old = slices.DeleteFunc(old, func(f finding.Finding) bool { return slices.Contains(incomplete, f.ID) })
	}
	return finding.Ratchet(old, current)
}
