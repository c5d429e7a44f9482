package lint

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/tool/suppress"
)

// Template says where objects of a kind have the annotations of a Service of type LoadBalancer that a controller creates.
// In paths, [] stands for every element of a list; all paths of a template mean the same elements.
type Template struct {
	// Group is the API group of the kind, such as kafka.strimzi.io.
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Annotations is the path of the annotations.
	Annotations string `json:"annotations"`
	// Type is the path of a field that decides the type of the Service. Without it, the type is always LoadBalancer.
	Type string `json:"type,omitempty"`
	// Types are the values of that field for a load balancer; the empty string stands for a field that is not set.
	Types []string `json:"types,omitempty"`
	// Class is the path of the loadBalancerClass.
	Class string `json:"class,omitempty"`
	// Catalogs are the names of those that describe the annotations, if these are not of a Service.
	Catalogs []string `json:"catalogs,omitempty"`
}

//go:embed templates.yaml
var templates []byte

// Templates returns the built-in templates.
var Templates = sync.OnceValue(func() []Template {
	var all []Template
	if err := yaml.UnmarshalStrict(templates, &all); err != nil {
		panic(err) // they are embedded
	}
	return all
})

// of reports whether the template is about a kind, in any version.
func (t *Template) of(apiVersion, kind string) bool {
	group, _, _ := strings.Cut(apiVersion, "/")
	return kind == t.Kind && group == t.Group
}

// Wanted reports whether the linter uses manifests of a kind, or reports them because their kind is missing or wrong.
func (l *Linter) Wanted(apiVersion, kind string) bool {
	return Wanted(apiVersion, kind) || len(l.templates(apiVersion, kind)) > 0
}

// templates returns those of a kind.
func (l *Linter) templates(apiVersion, kind string) []Template {
	var all []Template
	for _, list := range [][]Template{Templates(), l.Templates} {
		for _, t := range list {
			if t.of(apiVersion, kind) {
				all = append(all, t)
			}
		}
	}
	return all
}

// generated validates the annotations of Services that a controller will create for an object. ok is false if there are
// none.
func (l *Linter) generated(o *manifest.Object, templates []Template, reviewer *Reviewer) (r report.Result, ok bool) {
	meta, _ := manifest.Decode[metav1.PartialObjectMetadata](o)
	r = result(o, report.Object{Kind: o.Kind, Namespace: meta.Namespace, Name: meta.Name}, nil, nil)
	r.Ignores = suppress.Annotations(meta.Annotations, o.Find)
	decoded := map[string]bool{} // the paths whose mistakes have been reported
	for _, t := range templates {
		for _, indexes := range o.Expand(t.Annotations) {
			if t.Type != "" && !slices.Contains(t.Types, o.Text(manifest.Fill(t.Type, indexes))) {
				continue
			}
			path := manifest.Fill(t.Annotations, indexes)
			annotations, mistakes := o.Strings(path)
			svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: l.namespace(meta.Namespace), Name: meta.Name, Annotations: annotations,
			}}
			if class := o.Text(manifest.Fill(t.Class, indexes)); t.Class != "" && class != "" {
				svc.Spec.LoadBalancerClass = &class
			}
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
