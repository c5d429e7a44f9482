package lint

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/internal/tool/report"
)

// ReviewerOptions configure a Reviewer.
type ReviewerOptions struct {
	// Catalogs are the names of existing catalogs; nil to detect those that each Service is probably written for. Those of
	// other objects are not used for Services.
	Catalogs []string
	// Library is where they come from; nil for the built-in catalogs.
	Library *library.Library
	// Class, DefaultClass and UnknownKeys are as in catalog.Options.
	Class        string
	DefaultClass bool
	UnknownKeys  map[string]catalog.UnknownKeys
	// Placeholders is as in catalog.Options. It is true for manifests that users write.
	Placeholders bool
	// Policies are the policies of the cluster, Namespaces the labels of its namespaces by name.
	Policies   []*policy.Policy
	Namespaces map[string]map[string]string
}

// Reviewer reviews Services as admission does. Services must have a namespace.
type Reviewer struct{ o ReviewerOptions }

// NewReviewer returns a Reviewer.
func NewReviewer(o ReviewerOptions) *Reviewer {
	if o.Library == nil {
		o.Library = library.BuiltIn()
	}
	return &Reviewer{o: o}
}

// Findings returns the findings of admission if a Service is created, with all defaults that admission writes.
func (r *Reviewer) Findings(svc *corev1.Service) []finding.Finding {
	return r.by(svc, r.catalogs(svc, len(r.o.Policies) > 0)).Preview(svc, r.applicable(svc))
}

// Stored returns the findings about a Service of a cluster, to which admission adds no defaults any more.
func (r *Reviewer) Stored(svc *corev1.Service) []finding.Finding {
	return r.by(svc, r.catalogs(svc, len(r.o.Policies) > 0)).Stored(svc, r.applicable(svc))
}

// Defaults returns the annotations that admission would add, sorted by key.
func (r *Reviewer) Defaults(svc *corev1.Service) []report.Default {
	added := r.by(svc, r.catalogs(svc, true)).Defaults(svc, r.applicable(svc))
	origins := policy.Origins(added)
	delete(added, policy.AnnotationDefaulted) // each default names its origin
	var defaults []report.Default
	for _, key := range slices.Sorted(maps.Keys(added)) {
		d := report.Default{Key: key, Value: added[key], Policy: origins[key]}
		if d.Policy == policy.BuiltIn {
			d.Policy = ""
		}
		defaults = append(defaults, d)
	}
	return defaults
}

func (r *Reviewer) by(svc *corev1.Service, catalogs []string) review.Reviewer {
	reviewer, err := review.New(catalog.Options{
		Catalogs: catalogs, Class: r.o.Class, DefaultClass: r.o.DefaultClass, UnknownKeys: r.o.UnknownKeys,
		Library: r.o.Library, Placeholders: r.o.Placeholders, Unstored: r.o.Placeholders && svc.UID == "",
	})
	if err != nil {
		panic(err) // flags with unknown catalogs are rejected before
	}
	return reviewer
}

// catalogs returns the selected catalogs or, without any, those that the Service is probably written for. admission is
// true for users who run Quaymaster's admission, such as those who pass policies: a Service that no other controller
// claims then belongs to Quaymaster's own.
func (r *Reviewer) catalogs(svc *corev1.Service, admission bool) []string {
	if r.o.Catalogs != nil {
		return r.o.Catalogs
	}
	names := r.o.Library.Detect(svc)
	class := svc.Spec.LoadBalancerClass
	// A key that is a typo of one of Quaymaster's own controller belongs to no catalog.
	meant := slices.ContainsFunc(slices.Collect(maps.Keys(svc.Annotations)), func(key string) bool {
		_, own := review.Meant(r.o.Library, key)
		return own
	})
	if class != nil && *class == r.o.Class || meant && class == nil || admission && r.o.DefaultClass && class == nil && len(names) == 0 {
		names = append(names, loadbalancer.Catalog)
	}
	return append(names, r.claiming(r.o.Library.OfOthers(), svc.Annotations)...)
}

func (r *Reviewer) applicable(svc *corev1.Service) []*policy.Policy {
	return policy.Applicable(r.o.Policies, svc.Namespace, Labels(r.o.Namespaces, svc.Namespace))
}

// Labels returns the labels of a namespace, which may be unknown. The API server labels every namespace with its name.
func Labels(namespaces map[string]map[string]string, name string) map[string]string {
	labels := map[string]string{corev1.LabelMetadataName: name}
	maps.Copy(labels, namespaces[name])
	return labels
}
