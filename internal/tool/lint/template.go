package lint

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/template"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/tool/suppress"
)

// Wanted reports whether the linter uses manifests of a kind, or reports them because their kind is missing or wrong.
func (l *Linter) Wanted(apiVersion, kind string) bool {
	return Wanted(apiVersion, kind) || len(l.templates(apiVersion, kind)) > 0
}

// templates returns those of a kind.
func (l *Linter) templates(apiVersion, kind string) []template.Template {
	return template.Of(slices.Concat(template.BuiltIn(), l.Templates), apiVersion, kind)
}

// generated validates the annotations of Services that a controller will create for an object. ok is false if there are
// none.
func (l *Linter) generated(o *manifest.Object, templates []template.Template, reviewer *Reviewer) (r report.Result, ok bool) {
	meta, _ := manifest.Decode[metav1.PartialObjectMetadata](o)
	r = result(o, report.Object{Kind: o.Kind, Namespace: meta.Namespace, Name: meta.Name}, nil, nil)
	r.Ignores = suppress.Annotations(meta.Annotations, o.Find)
	decoded := map[string]bool{} // the paths whose mistakes have been reported
	for _, t := range templates {
		for _, p := range t.Places(o) {
			path := p.Path
			annotations, mistakes := o.Strings(path)
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: l.namespace(meta.Namespace), Name: meta.Name, Annotations: annotations,
			}}
			svc.Spec.LoadBalancerClass = p.Class
			findings, concerned := reviewer.generated(svc, t.Catalogs)
			if !concerned {
				continue
			}
			if ok = true; decoded[path] {
				mistakes = nil
			}
			decoded[path] = true
			for i, f := range findings {
				findings[i].Field = path + strings.TrimPrefix(f.Field, annotationsField)
			}
			r.Findings = append(r.Findings, result(o, r.Object, findings, mistakes).Findings...)
		}
	}
	report.Sort(r.Findings)
	return r, ok
}
