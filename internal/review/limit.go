package review

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
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
func exceeds(p *catalog.Parsed) []finding.Finding {
	if !p.LoadBalancer() {
		return nil
	}
	var findings []finding.Finding
	add := func(id, path, what string, n, most int) {
		if n > most {
			findings = append(findings, finding.Finding{
				ID: id, Severity: finding.Error, Type: field.ErrorTypeTooMany, Field: path,
				Message: fmt.Sprintf("must have at most %d %s; there are more", most, what),
				Remedy:  "remove some: a Service with more is not validated",
			})
		}
	}
	add(IDTooManyAnnotations, "metadata.annotations", "annotations for load balancers", p.Annotations(), maxAnnotations)
	add(IDTooManyPorts, "spec.ports", "ports", len(p.Service.Spec.Ports), maxPorts)
	return findings
}
