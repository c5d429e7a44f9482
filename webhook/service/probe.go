package service

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/finding"
)

// AnnotationProbe on a load balancer is refused always, by whichever catalogs Services are judged: whoever wants to know whether the
// API server asks the webhooks tries to create one, in a dry run.
const AnnotationProbe = "quaymaster.dev/probe"

const idProbe = "probe"

func probed(svc *corev1.Service) []finding.Finding {
	value, set := svc.Annotations[AnnotationProbe]
	if !set || !isLoadBalancer(svc) {
		return nil
	}
	return []finding.Finding{{
		ID: idProbe, Severity: finding.Error, Type: field.ErrorTypeForbidden, Value: value,
		Field:   field.NewPath("metadata", "annotations").Key(AnnotationProbe).String(),
		Message: "must not be set: it is for finding out whether Services are judged", Remedy: "remove the key",
	}}
}
