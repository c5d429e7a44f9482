package manifest

import (
	"fmt"

	yamlnode "go.yaml.in/yaml/v3" //nolint:depguard // as in parse.go
)

// Mistake is what in an object the API server could not decode, or kubectl would refuse to send.
type Mistake struct {
	// Path is the field's.
	Path string
	// Value is as it was written; empty for anything but a scalar.
	Value string
	// Message says what must hold, Remedy what to do.
	Message, Remedy string
	Place           Place
}

// twice finds the keys that occur more than once in a map. Decoders take the last one without a word.
func (o *Object) twice(node *yamlnode.Node, path string) []Mistake {
	var mistakes []Mistake
	switch node.Kind {
	case yamlnode.MappingNode:
		lines := map[string]int{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			below := under(path, key.Value)
			if line, known := lines[key.Value]; known && key.Value != "<<" {
				mistakes = append(mistakes, Mistake{
					Path: below, Value: scalar(value), Message: fmt.Sprintf("must occur once; it is in line %d, too", line),
					Remedy: "remove one of the two", Place: o.place(key, value),
				})
			}
			lines[key.Value] = key.Line + o.above
			mistakes = append(mistakes, o.twice(value, below)...)
		}
	case yamlnode.SequenceNode:
		for i, element := range node.Content {
			mistakes = append(mistakes, o.twice(element, fmt.Sprintf("%s[%d]", path, i))...)
		}
	default: // scalars hold nothing, and what an alias stands for is looked at where it is
	}
	return mistakes
}

// under is the path of a key of a map of which nothing else is known: the keys of annotations and labels are written in brackets.
func under(path, key string) string {
	switch path {
	case "":
		return key
	case "metadata.annotations", "metadata.labels", "spec.selector", "spec.defaults":
		return path + "[" + key + "]"
	}
	return path + "." + key
}

func scalar(node *yamlnode.Node) string {
	if node.Kind == yamlnode.ScalarNode {
		return node.Value
	}
	return ""
}

// written is the value at a path as it stands in the source.
func (o *Object) written(path string) string {
	value := o.node
	for _, step := range steps(path) {
		if _, value = child(value, step); value == nil {
			return ""
		}
	}
	return scalar(value)
}
