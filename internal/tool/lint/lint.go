// Package lint validates manifests with the checks of admission, without a cluster: Services of type LoadBalancer, and
// policies.
package lint

import (
	"cmp"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
)

const (
	kindService   = "Service"
	kindNamespace = "Namespace"
	// idManifest is the ID of findings about manifests that the API server could not decode.
	idManifest = "manifest-invalid"
)

// Wanted reports whether the linter uses manifests of a kind.
func Wanted(apiVersion, kind string) bool {
	switch kind {
	case kindService, kindNamespace:
		// Other API groups also have kinds of these names.
		return apiVersion == "v1" || apiVersion == ""
	case v1alpha1.KindLoadBalancerPolicy, v1alpha1.KindClusterLoadBalancerPolicy:
		return apiVersion == v1alpha1.GroupVersion().String()
	}
	return false
}

// Linter validates manifests.
type Linter struct {
	// Namespace is the namespace of objects without one; if empty, default.
	Namespace string
	// ShowDefaults adds to the results what admission would add.
	ShowDefaults bool
}

// Files validates the Services of type LoadBalancer in files concurrently, and returns the results in the order of the
// files.
func (l *Linter) Files(files []manifest.File, reviewer *Reviewer) []report.Result {
	results := make([][]report.Result, len(files))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, f := range files {
		group.Go(func() error {
			results[i] = l.services(f.Objects, reviewer)
			return nil
		})
	}
	_ = group.Wait() // never fails
	return slices.Concat(results...)
}

// services validates the Services of type LoadBalancer among the objects.
func (l *Linter) services(objects []*manifest.Object, reviewer *Reviewer) []report.Result {
	var results []report.Result
	for _, o := range objects {
		if o.Kind != kindService {
			continue
		}
		svc, mistakes := manifest.Decode[corev1.Service](o)
		if svc.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		name := report.Object{Kind: o.Kind, Namespace: svc.Namespace, Name: svc.Name}
		svc.Namespace = l.namespace(svc.Namespace)
		r := result(o, name, reviewer.Findings(svc), mistakes)
		if l.ShowDefaults {
			r.Defaults = reviewer.Defaults(svc)
		}
		results = append(results, r)
	}
	return results
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
	if o.APIVersion == "" {
		mistakes = append(mistakes, manifest.Mistake{Path: "apiVersion", Message: "must be set to v1", Remedy: "add it",
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
	return f
}
