package manifest

import (
	"fmt"

	yamlnode "go.yaml.in/yaml/v3" //nolint:depguard // as in parse.go
)

// Mistake is something in an object that the API server could not decode or that kubectl would refuse to send.
type Mistake struct {
	// Path is the path of the field.
	Path string
	// Value is the source text of a scalar; empty for anything else.
	Value string
	// Message says what is wrong, Remedy how to fix it.
	Message, Remedy string
	Place           Place
}

// Problems returns mistakes in a file as problems, each with its path and remedy.
func Problems(file string, mistakes []Mistake) []Problem {
	var problems []Problem
	for _, m := range mistakes {
		problems = append(problems, Problem{
			File: file, Line: m.Place.Line, Message: fmt.Sprintf("%s: %s; %s", m.Path, m.Message, m.Remedy),
		})
	}
	return problems
}

// duplicates finds keys that occur more than once in a map. Decoders silently use the last one.
func (o *Object) duplicates(node *yamlnode.Node, path string) []Mistake {
	var mistakes []Mistake
	switch node.Kind {
	case yamlnode.MappingNode:
		lines := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			below := under(path, key.Value)
			if line, known := lines[key.Value]; known && key.Value != "<<" {
				mistakes = append(mistakes, Mistake{
					Path: below, Value: scalar(value),
					Message: fmt.Sprintf("duplicate key, already set in line %d", line),
					Remedy:  "remove one of them", Place: o.place(key, value),
				})
			}
			lines[key.Value] = key.Line + o.above
			mistakes = append(mistakes, o.duplicates(value, below)...)
		}
	case yamlnode.SequenceNode:
		for i, element := range node.Content {
			mistakes = append(mistakes, o.duplicates(element, fmt.Sprintf("%s[%d]", path, i))...)
		}
	default: // scalars contain no keys, and the target of an alias is checked where it is defined
	}
	return mistakes
}

// under returns the path of a key in a map without knowing the type: only the keys of the maps listed here are in
// brackets.
func under(path, key string) string {
	switch path {
	case "":
		return key
	case "metadata.annotations", "metadata.labels", "spec.selector", "spec.defaults":
		return path + "[" + key + "]"
	}
	return path + "." + key
}

// scalar returns the source text of a scalar; empty for anything else, or nil.
func scalar(node *yamlnode.Node) string {
	if node != nil && node.Kind == yamlnode.ScalarNode {
		return node.Value
	}
	return ""
}

// written returns the source text of the scalar at a path.
func (o *Object) written(path string) string { return scalar(o.at(path)) }
