package template

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	engine "quaymaster.dev/internal/rules/template"
	"quaymaster.dev/webhook"
)

const (
	// mostBytes is the total length of keys and values that are kept of an object: that of annotations that Kubernetes
	// stores.
	mostBytes = 256 << 10
	// mostElements is how many elements of lists are looked at.
	mostElements = 1000
)

// paths are those that matter of a kind.
type paths struct {
	// known is true for those of values, and false for those that lead to one.
	known map[string]bool
	// annotations are those of annotations.
	annotations []string
}

// add adds a path and what leads to it.
func (p paths) add(path string) {
	for i := range len(path) {
		if lead := path[:i]; (path[i] == '.' || path[i] == '[') && !p.known[lead] {
			p.known[lead] = false
		}
	}
	p.known[path] = true
}

// leadToAnnotations reports whether there may be annotations below a path.
func (p paths) leadToAnnotations(path string) bool {
	return slices.ContainsFunc(p.annotations, func(a string) bool { return strings.HasPrefix(a, path) })
}

// kinds has the paths of each kind.
type kinds map[schema.GroupKind]paths

// pathsOf returns the paths of templates, by kind.
func pathsOf(templates []engine.Template) kinds {
	all := kinds{}
	for _, t := range templates {
		kind := schema.GroupKind{Group: t.Group, Kind: t.Kind}
		of, found := all[kind]
		if !found {
			of.known = map[string]bool{"": false, "metadata": false}
		}
		of.annotations = append(of.annotations, t.Annotations)
		all[kind] = of
		for _, path := range append([]string{t.Annotations, t.Type, t.Class}, t.Fields...) {
			of.add(path)
		}
	}
	return all
}

// decodable keeps what matters of an object while it arrives.
type decodable struct {
	kinds  kinds
	object object
}

// Object returns the object.
func (d *decodable) Object() webhook.Object { return &d.object }

// UnmarshalJSONFrom decodes the object. API servers write the kind first.
func (d *decodable) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	if in.PeekKind() != '{' {
		return in.SkipValue()
	}
	return d.object.fields(in, func(key string) error {
		switch key {
		case "apiVersion":
			return text(in, &d.object.APIVersion)
		case "kind":
			return text(in, &d.object.Kind)
		}
		wanted := d.kinds[d.object.GroupVersionKind().GroupKind()]
		if key == "metadata" && in.PeekKind() == '{' {
			return d.object.metadata(in, wanted)
		}
		return d.object.read(in, wanted, key, nil)
	})
}

// object is an object as far as templates ask about it.
type object struct {
	metav1.PartialObjectMetadata

	// texts are strings by their paths, annotations those by theirs, and found is where they were, in order.
	texts       map[string]string
	annotations map[string]map[string]string
	found       []found
	// size is the length of what is kept, and elements the number of elements of lists.
	size, elements int
	// partial is true if some of the object was left out, because it is too large, and cut if there may be annotations in it.
	partial, cut bool
}

// found is a path in a template, and the indexes of elements of its lists.
type found struct {
	path    string
	indexes []int
}

var _ engine.Source = (*object)(nil)

// Expand implements template.Source for paths of annotations and strings.
func (o *object) Expand(path string) [][]int {
	var all [][]int
	for _, f := range o.found {
		if f.path == path {
			all = append(all, f.indexes)
		}
	}
	return all
}

// Text implements template.Source.
func (o *object) Text(path string) string { return o.texts[path] }

// Size returns about how much memory the object needs.
func (o *object) Size() int { return 2*o.size + 512*len(o.found) }

// fields calls a function for each field of an object, which must read its value.
func (o *object) fields(in *jsontext.Decoder, each func(key string) error) error {
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	for in.PeekKind() != '}' {
		key, err := in.ReadToken()
		if err != nil {
			return err
		}
		if err := each(key.String()); err != nil {
			return err
		}
	}
	_, err := in.ReadToken()
	return err
}

// metadata reads the metadata that every kind has, and what matters of it to some.
func (o *object) metadata(in *jsontext.Decoder, wanted paths) error {
	deletion := ""
	err := o.fields(in, func(key string) error {
		into, known := map[string]*string{
			"name": &o.Name, "generateName": &o.GenerateName, "namespace": &o.Namespace, "deletionTimestamp": &deletion,
		}[key]
		if known {
			return text(in, into)
		}
		return o.read(in, wanted, "metadata."+key, nil)
	})
	if deletion != "" {
		o.DeletionTimestamp = &metav1.Time{} // when does not matter
	}
	return err
}

// read keeps what matters of the value at a path.
func (o *object) read(in *jsontext.Decoder, wanted paths, path string, indexes []int) error {
	value, matters := wanted.known[path]
	switch kind := in.PeekKind(); {
	case !matters:
	case kind == '{':
		return o.entries(in, wanted, path, indexes)
	case kind == '[':
		return o.list(in, wanted, path+"[]", indexes)
	case kind == '"' && value:
		var s string
		if err := text(in, &s); err != nil {
			return err
		}
		if o.fits(len(path) + len(s)) {
			if o.texts == nil {
				o.texts = map[string]string{}
			}
			o.texts[engine.Fill(path, indexes)] = s
			o.found = append(o.found, found{path, slices.Clone(indexes)})
		}
		return nil
	}
	return in.SkipValue()
}

// entries reads an object, which may have fields that matter, or consist of annotations.
func (o *object) entries(in *jsontext.Decoder, wanted paths, path string, indexes []int) error {
	var annotations map[string]string
	if wanted.known[path] {
		annotations = map[string]string{}
	}
	err := o.fields(in, func(key string) error {
		if annotations == nil || in.PeekKind() != '"' {
			if strings.ContainsAny(key, ".[") {
				return in.SkipValue()
			}
			return o.read(in, wanted, path+"."+key, indexes)
		}
		var s string
		if err := text(in, &s); err != nil {
			return err
		}
		if o.fits(len(key) + len(s)) {
			annotations[key] = s
		}
		return nil
	})
	if len(annotations) > 0 {
		if o.annotations == nil {
			o.annotations = map[string]map[string]string{}
		}
		o.annotations[engine.Fill(path, indexes)] = annotations
		o.found = append(o.found, found{path, slices.Clone(indexes)})
	}
	return err
}

// list reads the elements of a list.
func (o *object) list(in *jsontext.Decoder, wanted paths, path string, indexes []int) error {
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	indexes = append(slices.Clone(indexes), 0)
	for ; in.PeekKind() != ']'; indexes[len(indexes)-1]++ {
		if o.elements++; o.elements > mostElements {
			o.partial, o.cut = true, o.cut || wanted.leadToAnnotations(path)
			wanted = paths{}
		}
		if err := o.read(in, wanted, path, indexes); err != nil {
			return err
		}
	}
	_, err := in.ReadToken()
	return err
}

// fits reports whether that many bytes more may be kept.
func (o *object) fits(n int) bool {
	if o.size+n > mostBytes {
		o.partial, o.cut = true, true
		return false
	}
	o.size += n
	return true
}

// text reads a string; a value of another type is none.
func text(in *jsontext.Decoder, into *string) error {
	if in.PeekKind() != '"' {
		return in.SkipValue()
	}
	token, err := in.ReadToken()
	if err == nil {
		*into = token.String()
	}
	return err
}
