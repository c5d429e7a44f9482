package lint

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/report"
)

// Judge says of a Service what admission would say when it is created. The Service has its namespace.
type Judge interface {
	Findings(svc *corev1.Service) []finding.Finding
	// Defaults are the annotations that admission would add, in the order of their keys.
	Defaults(svc *corev1.Service) []report.Default
}

// JudgeOptions are what Services are judged by.
type JudgeOptions struct {
	// Catalogs names those to judge by, which exist; nil for those that each Service seems to be written for.
	Catalogs []string
	// Class is the loadBalancerClass of Services that are ours besides those without one.
	Class string
	// Policies and Namespaces, labels by name, are the cluster's.
	Policies   []*policy.Policy
	Namespaces map[string]map[string]string
}

// NewJudge makes the judge of the catalogs and policies.
func NewJudge(o JudgeOptions) Judge { return &judge{o: o} }

type judge struct{ o JudgeOptions }

var _ Judge = (*judge)(nil)

// engine is the judge by the catalogs that were named or, without any, by those that the Service seems to be written for.
func (j *judge) engine(catalogs []string) policy.Judge {
	engine, err := policy.NewJudge(loadbalancer.Options{Class: j.o.Class}, policy.Selection{Catalogs: catalogs})
	if err != nil {
		panic(err) // a catalog that does not exist: flags are checked before
	}
	return engine
}

// catalogs are those named or, without any, those that the Service seems to be written for. Who gives policies has Quaymaster for an
// admission, where a Service that is nobody else's is the DLB's.
func (j *judge) catalogs(svc *corev1.Service, admission bool) []string {
	if j.o.Catalogs != nil {
		return j.o.Catalogs
	}
	names := catalog.Detect(svc)
	class := svc.Spec.LoadBalancerClass
	ours := class != nil && *class == j.o.Class
	for key := range svc.Annotations {
		ours = ours || strings.HasPrefix(key, loadbalancer.Prefix)
	}
	if ours || admission && class == nil && len(names) == 0 {
		names = append(names, loadbalancer.Catalog)
	}
	return names
}

func (j *judge) Findings(svc *corev1.Service) []finding.Finding {
	return j.engine(j.catalogs(svc, len(j.o.Policies) > 0)).Admit(nil, svc, j.applicable(svc))
}

func (j *judge) Defaults(svc *corev1.Service) []report.Default {
	added := j.engine(j.catalogs(svc, true)).Annotations(svc, j.applicable(svc))
	origins := map[string]string{}
	for entry := range strings.SplitSeq(added[policy.AnnotationDefaulted], ",") {
		key, by, _ := strings.Cut(entry, "=")
		origins[key] = by
	}
	delete(added, policy.AnnotationDefaulted) // it tells the origins, which are told already
	var defaults []report.Default
	for _, key := range slices.Sorted(maps.Keys(added)) {
		defaults = append(defaults, report.Default{Key: key, Value: added[key], Policy: origins[key]})
	}
	return defaults
}

func (j *judge) applicable(svc *corev1.Service) []*policy.Policy {
	return policy.Applicable(j.o.Policies, svc.Namespace, Labels(j.o.Namespaces, svc.Namespace))
}

// Labels are those of a namespace. That of its name the API server gives to each, whether or not anything is known of it.
func Labels(namespaces map[string]map[string]string, name string) map[string]string {
	labels := map[string]string{corev1.LabelMetadataName: name}
	maps.Copy(labels, namespaces[name])
	return labels
}
