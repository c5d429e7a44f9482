package service

import (
	"context"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/rules"
	"quaymaster.dev/webhook"
)

// idDefaultsUnavailable is the finding when a Service is admitted without its defaults.
const idDefaultsUnavailable = "defaults-unavailable"

// Defaulter knows the annotations that a Service gets where it lacks them.
type Defaulter interface {
	// Defaults are keyed by annotation. An error means that they cannot be known now, which is never the user's fault.
	Defaults(ctx context.Context, svc *corev1.Service) (map[string]string, error)
}

// DefaulterFunc is a function as a Defaulter.
type DefaulterFunc func(ctx context.Context, svc *corev1.Service) (map[string]string, error)

// Defaults calls the function.
func (f DefaulterFunc) Defaults(ctx context.Context, svc *corev1.Service) (map[string]string, error) {
	return f(ctx, svc)
}

// MutatorOptions are what a Mutator needs.
type MutatorOptions struct {
	// Defaulter knows the defaults.
	Defaulter Defaulter
	// OnFinding is told of each finding, for metrics; nil if nobody wants to know.
	OnFinding func(rules.Finding)
}

// Mutator writes defaults into Services that become load balancers. It only ever adds annotations, so calling it again changes
// nothing.
type Mutator struct{ o MutatorOptions }

var _ webhook.Reviewer = (*Mutator)(nil)

// NewMutator makes the reviewer of the mutating webhook.
func NewMutator(o MutatorOptions) *Mutator { return &Mutator{o: o} }

// Review never refuses.
func (m *Mutator) Review(ctx context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	oldSvc, newSvc, err := decodePair(req)
	if err != nil {
		return nil, err
	}
	response := allow()
	if beingDeleted(newSvc) || !isLoadBalancer(newSvc) || isLoadBalancer(oldSvc) {
		// A load balancer that was one before keeps what it has: whoever removed a default meant to.
		return response, nil
	}
	defaults, err := m.o.Defaulter.Defaults(ctx, newSvc)
	if err != nil {
		m.admitWithout(ctx, response, newSvc, err)
		return response, nil
	}
	absent := maps.Clone(defaults)
	maps.DeleteFunc(absent, func(key, _ string) bool { _, present := newSvc.Annotations[key]; return present })
	if len(absent) == 0 {
		return response, nil
	}
	if response.Patch, err = annotationsPatch(newSvc.Annotations, absent); err != nil {
		return nil, err
	}
	patchType := admissionv1.PatchTypeJSONPatch
	response.PatchType = &patchType
	response.AuditAnnotations = map[string]string{auditDefaulted: auditText(absent)}
	return response, nil
}

func (m *Mutator) admitWithout(ctx context.Context, response *admissionv1.AdmissionResponse, svc *corev1.Service, err error) {
	klog.FromContext(ctx).Error(err, "Admitted without defaults", "service", klog.KObj(svc), "rule", idDefaultsUnavailable)
	f := rules.Finding{
		ID: idDefaultsUnavailable, Severity: rules.Warning, Field: "metadata.annotations",
		Message: "defaults were not added because they are not known at the moment", Remedy: "the controllers apply them later",
	}
	if m.o.OnFinding != nil {
		m.o.OnFinding(f)
	}
	response.Warnings = rules.Warnings([]rules.Finding{f})
	response.AuditAnnotations = auditOf([]rules.Finding{f})
}

func isLoadBalancer(svc *corev1.Service) bool {
	return svc != nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer
}

func auditText(annotations map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		parts = append(parts, key+"="+annotations[key])
	}
	return strings.Join(parts, ",")
}
