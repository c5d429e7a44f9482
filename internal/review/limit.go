package review

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/policy"
)

// Validating a Service takes time in proportion to these, so that one of the size that Kubernetes accepts could occupy
// a processor for seconds.
const (
	// maxAnnotations bounds the annotations of load balancers. The longest catalog has 89, and forms of some for
	// single ports.
	maxAnnotations = 1000
	// maxPorts is more than the node ports that a cluster has by default, 2768.
	maxPorts = 3000
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
				Message: fmt.Sprintf("must have at most %d %s; there are more", most, what),
				Remedy:  "remove some: a Service with more is not validated",
			})
		}
	}
	if len(svc.Annotations) > maxAnnotations { // of which some may not concern load balancers
		add(IDTooManyAnnotations, "metadata.annotations", "annotations for load balancers", set.Annotations(svc), maxAnnotations)
	}
	add(IDTooManyPorts, "spec.ports", "ports", len(svc.Spec.Ports), maxPorts)
	return findings
}

// ratchet is finding.Ratchet, except for findings that a Service is not validated completely: an update that changes
// anything could introduce every problem, so that they only count as old if it changes nothing.
func ratchet(oldSvc, newSvc *corev1.Service, old, current []finding.Finding) []finding.Finding {
	if oldSvc == nil || !unchanged(oldSvc, newSvc) {
		incomplete := []string{IDTooManyAnnotations, IDTooManyPorts, policy.IDTooLong, policy.IDInactive}
		old = slices.DeleteFunc(old, func(f finding.Finding) bool { return slices.Contains(incomplete, f.ID) })
	}
	return finding.Ratchet(old, current)
}

// unchanged reports whether what is validated is the same.
func unchanged(oldSvc, newSvc *corev1.Service) bool {
	return maps.Equal(oldSvc.Annotations, newSvc.Annotations) && reflect.DeepEqual(oldSvc.Spec, newSvc.Spec)
}
