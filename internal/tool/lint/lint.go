// Package lint validates manifests with the checks of admission, without a cluster: Services of type LoadBalancer, objects
// for which controllers create such Services, and policies.
package lint

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/template"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/tool/suppress"
)

const (
	kindService   = "Service"
	kindNamespace = "Namespace"
	// idManifest is the ID of findings about manifests that the API server could not decode.
	idManifest = "manifest-invalid"
)

// Linter validates manifests.
type Linter struct {
	// Namespace is the namespace of objects without one; if empty, default.
	Namespace string
	// ShowDefaults adds to the results what admission would add.
	ShowDefaults bool
	// Templates are those of users, in addition to the built-in ones.
	Templates []template.Template
}

// Files validates the Services of type LoadBalancer in files concurrently, and returns the results in the order of the
// files. Objects whose kind is missing or wrong have results, too.
func (l *Linter) Files(files []manifest.File, reviewer *Reviewer) ([]report.Result, report.Counts) {
	results := make([][]report.Result, len(files))
	counts := make([]report.Counts, len(files))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range files {
		group.Go(func() error {
			counts[i].Skip(f.Skipped)
			results[i] = l.objects(f.Objects, reviewer, &counts[i])
			return nil
		})
	}
	_ = group.Wait() // never fails
	var all report.Counts
	for _, c := range counts {
		all.Add(c)
	}
	return slices.Concat(results...), all
}

// objects validates the Services of type LoadBalancer among the objects, and the templates of such Services, and counts all
// but policies.
func (l *Linter) objects(objects []*manifest.Object, reviewer *Reviewer, counts *report.Counts) []report.Result {
	var results []report.Result
	for _, o := range objects {
		templates := l.templates(o.APIVersion, o.Kind)
		switch {
		case len(templates) > 0:
			if r, ok := l.generated(o, templates, reviewer); ok {
				results = append(results, r)
				counts.Check(o.Kind, 1)
			} else {
				counts.Skip(map[string]int{"other " + o.Kind: 1})
			}
		case !used(o.APIVersion, o.Kind):
			counts.Unknown++
			if m, wrong := wrongKind(o); wrong {
				meta, _ := manifest.Decode[metav1.PartialObjectMetadata](o)
				name := report.Object{Kind: o.Kind, Namespace: meta.Namespace, Name: meta.Name}
				r := result(o, name, nil, []manifest.Mistake{m})
				r.Ignores = suppress.Annotations(meta.Annotations, o.Find)
				results = append(results, r)
			}
		case o.Kind == kindService:
			if r, ok := l.service(o, reviewer); ok {
				results = append(results, r)
				counts.Check(kindService, 1)
			} else {
				counts.Skip(map[string]int{"other " + kindService: 1})
			}
		case o.Kind == kindNamespace:
			counts.Skip(map[string]int{kindNamespace: 1})
		}
	}
	return results
}

// service validates a Service. ok is false if it is not of type LoadBalancer, and need not be.
func (l *Linter) service(o *manifest.Object, reviewer *Reviewer) (r report.Result, ok bool) {
	svc, mistakes := manifest.Decode[corev1.Service](o)
	wrong, found := wrongType(o, svc)
	if found {
		mistakes = append(mistakes, wrong)
	}
	loadBalancer := svc.Spec.Type == corev1.ServiceTypeLoadBalancer
	name := report.Object{Kind: o.Kind, Namespace: svc.Namespace, Name: svc.Name}
	svc.Namespace = l.namespace(svc.Namespace)
	findings := reviewer.Findings(svc)
	if !loadBalancer && !found && len(findings) == 0 {
		return r, false
	}
	r = result(o, name, findings, mistakes)
	r.Ignores = suppress.Annotations(svc.Annotations, o.Find)
	if l.ShowDefaults && loadBalancer {
		r.Defaults = reviewer.Defaults(svc)
	}
	return r, true
}

// wrongType returns the mistake in the type of a Service, and corrects it if LoadBalancer was obviously meant.
func wrongType(o *manifest.Object, svc *corev1.Service) (manifest.Mistake, bool) {
	types := []string{
		string(corev1.ServiceTypeClusterIP), string(corev1.ServiceTypeNodePort), string(corev1.ServiceTypeLoadBalancer),
		string(corev1.ServiceTypeExternalName),
	}
	given := string(svc.Spec.Type)
	if given == "" || slices.Contains(types, given) {
		return manifest.Mistake{}, false
	}
	const path = "spec.type"
	m := manifest.Mistake{
		Path: path, Value: given, Message: "must be one of " + strings.Join(types, ", "), Remedy: "correct the type", Place: o.Find(path),
	}
	if nearest, near := annotation.Suggest(given, types); near {
		m.Remedy = fmt.Sprintf("did you mean %q?", nearest)
		svc.Spec.Type = corev1.ServiceType(nearest)
	}
	return m, true
}

func (l *Linter) namespace(named string) string {
	return cmp.Or(named, l.Namespace, metav1.NamespaceDefault)
}

// result combines findings and mistakes, and locates them in the source.
func result(
	o *manifest.Object, name report.Object, found []finding.Finding, mistakes []manifest.Mistake,
) report.Result {
	r := report.Result{File: o.File, Line: o.Line, Object: name, Findings: report.Findings(found)}
	for i := range r.Findings {
		r.Findings[i] = place(r.Findings[i], o.Find(r.Findings[i].Path))
	}
	if o.APIVersion == "" && used(o.APIVersion, o.Kind) {
		mistakes = append(mistakes, manifest.Mistake{Path: "apiVersion", Message: "must be set to " + apiVersions[o.Kind], Remedy: "add it",
			Place: o.Find("apiVersion")})
	}
	for _, m := range mistakes {
		f := report.Finding{ID: idManifest, Severity: finding.Error, Path: m.Path, Value: m.Value, Message: m.Message,
			Remedy: m.Remedy}
		r.Findings = append(r.Findings, place(f, m.Place))
	}
	report.Sort(r.Findings)
	return r
}

func place(f report.Finding, at manifest.Place) report.Finding {
	f.Line, f.Column = at.Line, at.Column
	f.Excerpt = report.Excerpt{Text: at.Text, Mark: at.Mark, Width: at.Width}
	if aboutKey(f) {
		f.Excerpt.Mark, f.Excerpt.Width = at.Column, at.KeyWidth
	}
	return f
}

// aboutKey reports whether the key of a field is wrong, whatever its value.
func aboutKey(f report.Finding) bool {
	if f.ID == idManifest {
		return strings.HasPrefix(f.Message, "unknown field") || strings.HasPrefix(f.Message, "duplicate key")
	}
	return strings.HasSuffix(f.Path, "]") && slices.ContainsFunc([]string{
		"-key", "-port", "-port-form", "-not-owned", "-other-class", "-deprecated", "-shadowed", "-service-type",
	}, func(end string) bool { return strings.HasSuffix(f.ID, end) })
}
