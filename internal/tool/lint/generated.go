package lint

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/template"
)

// Generated returns the findings about the annotations of Services that a controller will create for an object, at their paths
// in it. annotations returns those at a path; the review ends where it is not ok. paths are those with annotations that concern
// a catalog: without any, there is nothing to check.
func (r *Reviewer) Generated(
	namespace, name string, o template.Source, templates []template.Template,
	annotations func(path string) (of map[string]string, ok bool),
) (findings []finding.Finding, paths []string) {
	for _, t := range templates {
		for _, p := range t.Places(o) {
			of, ok := annotations(p.Path)
			if !ok {
				return findings, paths
			}
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: of}}
			svc.Spec.LoadBalancerClass = p.Class
			found, concerned := r.generated(svc, t, o)
			if !concerned {
				continue
			}
			paths = append(paths, p.Path)
			for _, f := range found {
				f.Field = p.Path + strings.TrimPrefix(f.Field, finding.Annotations)
				findings = append(findings, f)
			}
		}
	}
	return findings, paths
}

// generated returns the findings about the annotations of a Service that a controller will create, or of an object of a kind
// that has annotations of its own. concerned is false if the latter belong to none of the catalogs.
func (r *Reviewer) generated(
	svc *corev1.Service, t template.Template, o template.Source,
) (findings []finding.Finding, concerned bool) {
	if t.Catalogs == nil {
		return r.by(svc, r.catalogs(svc, false)).Generated(svc, r.applicable(svc)), true
	}
	claiming := r.claiming(t.Catalogs, svc.Annotations)
	var fields map[string][]string
	if len(claiming) > 0 {
		fields = t.ValuesOf(o)
	}
	services := r.claiming(r.o.Library.Services(), svc.Annotations)
	reviewer, concerned := r.by(svc, slices.Concat(claiming, services)).Of(claiming, fields)
	findings = reviewer.Generated(svc, nil)
	return findings, concerned || len(findings) > 0
}

// foreign matches keys, by the catalog whose prefix they have, that only another controller reads: Alibaba's ALB Ingress
// controller has the prefix of AWS's.
var foreign = map[string]*regexp.Regexp{
	"alb": regexp.MustCompile(`^alb\.ingress\.kubernetes\.io/(canary.*|healthcheck-enabled|rewrite-target|order|albconfig\..*|vswitch-ids)$`),
}

// claiming returns the names of the catalogs that one of the keys belongs to, and that are selected. If none is selected,
// those for whose prefix there is a foreign key are left out.
func (r *Reviewer) claiming(names []string, annotations map[string]string) []string {
	var claiming []string
	for _, name := range names {
		selected := slices.Contains(r.o.Catalogs, name)
		if pattern := foreign[name]; r.o.Catalogs == nil {
			selected = pattern == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(annotations)), pattern.MatchString)
		}
		if selected && r.o.Library.Claims(name, annotations) {
			claiming = append(claiming, name)
		}
	}
	return claiming
}
