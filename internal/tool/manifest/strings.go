package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	yamlnode "go.yaml.in/yaml/v3" //nolint:depguard // as in parse.go
)

// Expand returns the indexes with which a path exists in the object. Each [] in the path stands for every element of a
// list, and has one index.
func (o *Object) Expand(path string) [][]int {
	before, after, some := strings.Cut(path, "[]")
	list := o.at(before)
	switch {
	case list == nil:
		return nil
	case !some:
		return [][]int{nil}
	case list.Kind != yamlnode.SequenceNode:
		return nil
	}
	var all [][]int
	for i := range list.Content {
		for _, inner := range o.Expand(fmt.Sprintf("%s[%d]%s", before, i, after)) {
			all = append(all, append([]int{i}, inner...))
		}
	}
	return all
}

// at returns the value at a path, or nil.
func (o *Object) at(path string) *yamlnode.Node {
	value := o.node
	for _, step := range steps(path) {
		if _, value = child(value, step); value == nil {
			return nil
		}
	}
	return value
}

// Text returns the source text of the scalar at a path; empty if there is none, or null.
func (o *Object) Text(path string) string {
	if value := o.at(path); value != nil && value.Tag != "!!null" {
		return scalar(value)
	}
	return ""
}

// Strings decodes the map of strings at a path, such as annotations, and returns what is wrong with it.
func (o *Object) Strings(path string) (map[string]string, []Mistake) {
	node := o.at(path)
	if node == nil {
		return nil, nil
	}
	const annotations = "metadata.annotations"
	d := &decoding{object: o, mistakes: o.duplicates(node, annotations)}
	for i, m := range d.mistakes {
		d.mistakes[i].Path = path + strings.TrimPrefix(m.Path, annotations)
	}
	fitting, _ := d.conform(o.value(path), reflect.TypeFor[map[string]string](), path)
	values, _ := fitting.(map[string]any)
	decoded := map[string]string{}
	for key, value := range values {
		decoded[key], _ = value.(string) // of conform, or nil
	}
	return decoded, d.mistakes
}

// value returns the value at a path as the API server would receive it.
func (o *Object) value(path string) any {
	decoder := json.NewDecoder(bytes.NewReader(o.data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil // cannot happen: it was decoded before
	}
	for _, step := range steps(path) {
		switch parent := value.(type) {
		case map[string]any:
			value = parent[step]
		case []any:
			index := 0
			if _, err := fmt.Sscan(step, &index); err != nil || index >= len(parent) {
				return nil
			}
			value = parent[index]
		default:
			return nil
		}
	}
	return value
}
