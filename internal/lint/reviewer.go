package lint

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/report"
	"quaymaster.dev/internal/review"
)

// ReviewerOptions are what Services are reviewed by.
type ReviewerOptions struct {
	// Catalogs names existing catalogs; nil for those that each Service seems to be written for.
	Catalogs []string
	// Class is the loadBalancerClass of Services that Quaymaster's own controller serves besides those without one.
	Class string
	// Policies and Namespaces, labels by name, are the cluster's.
	Policies   []*policy.Policy
	Namespaces map[string]map[string]string
}

// Reviewer returns what admission would when a Service is created. Services have their namespaces.
type Reviewer struct{ o ReviewerOptions }

// NewReviewer returns a Reviewer by catalogs and policies.
func NewReviewer(o ReviewerOptions) *Reviewer { return &Reviewer{o: o} }

// Findings returns what admission would find.
func (r *Reviewer) Findings(svc *corev1.Service) []finding.Finding {
	return r.by(r.catalogs(svc, len(r.o.Policies) > 0)).Review(nil, svc, r.applicable(svc))
}

// Defaults returns the annotations that admission would add, in the order of their keys.
func (r *Reviewer) Defaults(svc *corev1.Service) []report.Default {
	added := r.by(r.catalogs(svc, true)).Defaults(svc, r.applicable(svc))
	origins := policy.Origins(added)
	delete(added, policy.AnnotationDefaulted) // each default names its origin
	var defaults []report.Default
	for _, key := range slices.Sorted(maps.Keys(added)) {
		defaults = append(defaults, report.Default{Key: key, Value: added[key], Policy: origins[key]})
	}
	return defaults
}

func (r *Reviewer) by(catalogs []string) review.Reviewer {
	reviewer, err := review.New(catalog.Options{Catalogs: catalogs, Class: r.o.Class})
	if err != nil {
		panic(err) // a catalog that does not exist: flags are checked before
	}
	return reviewer
}

// catalogs returns those named or, without any, those that the Service seems to be written for. Whoever gives policies runs Quaymaster's
// admission (admission is true), where a Service that no other controller claims belongs to Quaymaster's own.
func (r *Reviewer) catalogs(svc *corev1.Service, admission bool) []string {
	if r.o.Catalogs != nil {
		return r.o.Catalogs
	}
	names := catalog.Detect(svc)
	class := svc.Spec.LoadBalancerClass
	if class != nil && *class == r.o.Class || admission && class == nil && len(names) == 0 {
		names = append(names, loadbalancer.Catalog)
	}
	return names
}

func (r *Reviewer) applicable(svc *corev1.Service) []*policy.Policy {
	return policy.Applicable(r.o.Policies, svc.Namespace, Labels(r.o.Namespaces, svc.Namespace))
}

// Labels returns the labels of a namespace. The API server sets the one with its name on each, even on one that is not known here.
func Labels(namespaces map[string]map[string]string, name string) map[string]string {
	labels := map[string]string{corev1.LabelMetadataName: name}
	maps.Copy(labels, namespaces[name])
	return labels
}
