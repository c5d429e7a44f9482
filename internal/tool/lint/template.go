package lint

import (
	"slices"

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
	wrong := map[string][]manifest.Mistake{} // by path
	findings, paths := reviewer.Generated(l.namespace(meta.Namespace), meta.Name, o, templates, func(path string) (map[string]string, bool) {
		annotations, mistakes := o.Strings(path)
		wrong[path] = mistakes
		return annotations, true
	})
	var mistakes []manifest.Mistake
	for _, path := range paths {
		mistakes = append(mistakes, wrong[path]...)
		delete(wrong, path) // another template may have the same path
	}
	r = result(o, report.Object{Kind: o.Kind, Namespace: meta.Namespace, Name: meta.Name}, findings, mistakes)
	r.Ignores = suppress.Annotations(meta.Annotations, o.Find)
	return r, len(paths) > 0
}
