// Package template knows where objects of other kinds have the annotations of Services that a controller creates for them.
// Linter, audit and admission share it.
package template

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// Template says where objects of a kind have the annotations of a Service of type LoadBalancer that a controller creates.
// In paths, [] stands for every element of a list; all paths of a template mean the same elements.
type Template struct {
	// Group is the API group of the kind, such as kafka.strimzi.io.
	Group string `json:"group"`
	Kind  string `json:"kind"`
	// Resource is the name of the kind in URLs, such as kafkas. Admission needs it.
	Resource string `json:"resource,omitempty"`
	// Annotations is the path of the annotations.
	Annotations string `json:"annotations"`
	// Type is the path of a field that decides the type of the Service. Without it, the type is always LoadBalancer.
	Type string `json:"type,omitempty"`
	// Types are the values of that field for a load balancer; the empty string stands for a field that is not set.
	Types []string `json:"types,omitempty"`
	// Class is the path of the loadBalancerClass, or of the class that other objects have.
	Class string `json:"class,omitempty"`
	// Catalogs are the names of those that describe the annotations, if these are not of a Service.
	Catalogs []string `json:"catalogs,omitempty"`
	// Fields are the paths of strings that the conditions of these catalogs use, such as spec.tls[].secretName.
	Fields []string `json:"fields,omitempty"`
}

//go:embed templates.yaml
var builtIn []byte

// BuiltIn returns the built-in templates.
var BuiltIn = sync.OnceValue(func() []Template {
	var all []Template
	if err := yaml.UnmarshalStrict(builtIn, &all); err != nil {
		panic(err) // they are embedded
	}
	return all
})

// Of returns the templates of a kind, in any version. Those of the same place, with catalogs of other objects, become one.
func Of(templates []Template, apiVersion, kind string) []Template {
	group, _, _ := strings.Cut(apiVersion, "/")
	var all []Template
	for _, t := range templates {
		if kind != t.Kind || group != t.Group {
			continue
		}
		same := slices.IndexFunc(all, func(other Template) bool {
			return (t.Catalogs == nil) == (other.Catalogs == nil) && t.Annotations == other.Annotations &&
				t.Type == other.Type && slices.Equal(t.Types, other.Types) && (t.Catalogs != nil || t.Class == other.Class)
		})
		if same < 0 {
			all = append(all, t)
			continue
		}
		all[same].Catalogs = union(all[same].Catalogs, t.Catalogs)
		all[same].Fields = union(all[same].Fields, t.Fields)
	}
	return all
}

// union returns the elements of a, and those of b that it lacks.
func union(a, b []string) []string {
	return append(slices.Clip(a), slices.DeleteFunc(slices.Clone(b), func(s string) bool { return slices.Contains(a, s) })...)
}

// For returns the templates of Services, and those of other annotations that one of the selected catalogs describes; nil
// selects all catalogs.
func For(templates []Template, catalogs []string) []Template {
	return slices.DeleteFunc(slices.Clone(templates), func(t Template) bool {
		selected := func(name string) bool { return slices.Contains(catalogs, name) }
		return catalogs != nil && t.Catalogs != nil && !slices.ContainsFunc(t.Catalogs, selected)
	})
}

// Problems returns what is wrong with the fields of a template.
func (t *Template) Problems() []string {
	var problems []string
	if t.Group == "" || t.Kind == "" || t.Annotations == "" {
		problems = append(problems, "must have a group, a kind and the path of annotations")
	}
	if (t.Type == "") != (len(t.Types) == 0) {
		problems = append(problems, "must have both type and types, or neither")
	}
	if len(t.Fields) > 0 && len(t.Catalogs) == 0 {
		problems = append(problems, "must have fields only with catalogs, whose conditions use them")
	}
	for _, other := range []string{t.Type, t.Class} {
		if at := strings.LastIndex(other, "[]"); at >= 0 && !strings.HasPrefix(t.Annotations, other[:at+2]) {
			problems = append(problems, fmt.Sprintf("must have no list in %s that is not in %s", other, t.Annotations))
		}
	}
	return problems
}

// Source gives access to the fields of an object.
type Source interface {
	// Expand returns the indexes of every element that a path means, as far as they exist.
	Expand(path string) [][]int
	// Text returns the string at a path with indexes; empty if there is none.
	Text(path string) string
}

// ValuesOf returns the values of the template's fields in an object; nil if it has none of them, because it is then probably a
// patch of one that has.
func (t *Template) ValuesOf(o Source) map[string][]string {
	values, found := make(map[string][]string, len(t.Fields)), false
	for _, path := range t.Fields {
		values[path] = nil
		for _, indexes := range o.Expand(path) {
			if text := o.Text(Fill(path, indexes)); text != "" {
				values[path], found = append(values[path], text), true
			}
		}
	}
	if !found {
		return nil
	}
	return values
}

// The limits of an object that is in a cluster, or is to be. Validating annotations takes longer the more Services they are in.
const (
	// MostServices is how many Services of an object are validated.
	MostServices = 100
	// MostAnnotations is how many annotations of its Services are validated. The first one may have more.
	MostAnnotations = 300
)

// Place is where an object has the annotations of one Service.
type Place struct {
	// Path is that of the annotations, with indexes.
	Path string
	// Class is the class; nil if there is none.
	Class *string
}

// Places returns the annotations of the load balancers that a controller creates for an object.
func (t *Template) Places(o Source) []Place {
	var places []Place
	for _, indexes := range o.Expand(t.Annotations) {
		if t.Type != "" && !slices.Contains(t.Types, o.Text(Fill(t.Type, indexes))) {
			continue
		}
		p := Place{Path: Fill(t.Annotations, indexes)}
		if t.Class != "" {
			if class := o.Text(Fill(t.Class, indexes)); class != "" {
				p.Class = &class
			}
		}
		places = append(places, p)
	}
	return places
}

// Fill replaces each [] in a path by an index, as long as there are any.
func Fill(path string, indexes []int) string {
	for _, i := range indexes {
		path = strings.Replace(path, "[]", fmt.Sprintf("[%d]", i), 1)
	}
	return path
}
