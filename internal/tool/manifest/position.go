package manifest

import (
	"strconv"
	"strings"
	"unicode/utf8"

	yamlnode "go.yaml.in/yaml/v3" //nolint:depguard // as in parse.go
)

// Place is a position in the source.
type Place struct {
	// Line and Column are the position of the key or list element, both counted from 1.
	Line, Column int
	// Mark and Width are the column and the length of the value if it is on the same line, otherwise of the key.
	Mark, Width int
	// KeyWidth is the length of the key or list element.
	KeyWidth int
	// Text is the content of the line.
	Text string
}

// Find returns the place of a path such as metadata.annotations[example.com/key] or spec.ports[0].protocol. The place
// of a missing field is the start of the object.
func (o *Object) Find(path string) Place {
	var key *yamlnode.Node
	value := o.node
	for _, step := range steps(path) {
		if key, value = child(value, step); value == nil {
			return o.place(nil, o.node)
		}
	}
	return o.place(key, value)
}

// place returns the place of a value with its key; key is nil for a list element.
func (o *Object) place(key, value *yamlnode.Node) Place {
	at := key
	if at == nil {
		at = value
	}
	p := Place{Line: at.Line + o.above, Column: at.Column, Mark: at.Column, Width: width(at), KeyWidth: width(at)}
	if value.Kind == yamlnode.ScalarNode && value.Line == at.Line && width(value) > 0 {
		p.Mark, p.Width = value.Column, width(value)
	}
	if p.Line <= len(o.source.lines) {
		p.Text = strings.TrimRight(string(o.source.lines[p.Line-1]), "\r")
	}
	p.Width = max(1, min(p.Width, utf8.RuneCountInString(p.Text)-p.Mark+1))
	p.KeyWidth = max(1, min(p.KeyWidth, utf8.RuneCountInString(p.Text)-p.Column+1))
	return p
}

// width returns the number of characters of a single-line scalar.
func width(node *yamlnode.Node) int {
	n := utf8.RuneCountInString(node.Value)
	switch node.Style {
	case yamlnode.DoubleQuotedStyle, yamlnode.SingleQuotedStyle:
		return n + len(`""`)
	case yamlnode.LiteralStyle, yamlnode.FoldedStyle:
		return 1
	default:
		return n
	}
}

// steps splits a path.
func steps(path string) []string {
	var all []string
	for path != "" {
		if inner, bracket := strings.CutPrefix(path, "["); bracket {
			step, rest, _ := strings.Cut(inner, "]")
			all = append(all, step)
			path = strings.TrimPrefix(rest, ".")
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		all = append(all, path[:end])
		path = strings.TrimPrefix(path[end:], ".")
	}
	return all
}

// content returns the content of a document or the target of an alias.
func content(node *yamlnode.Node) *yamlnode.Node {
	for node.Kind == yamlnode.AliasNode || node.Kind == yamlnode.DocumentNode && len(node.Content) > 0 {
		if node.Kind == yamlnode.AliasNode {
			node = node.Alias
		} else {
			node = node.Content[0]
		}
	}
	return node
}

// child returns the value of a key, or a list element, which has no key. Values merged with << are used if the key
// itself is missing. Call it only for decoded objects: the decoder rejects objects that contain themselves, on which
// child would not terminate.
func child(node *yamlnode.Node, step string) (key, value *yamlnode.Node) {
	if key, value = direct(node, step); value != nil {
		return key, value
	}
	_, merged := direct(node, "<<")
	if merged == nil {
		return nil, nil
	}
	if merged.Kind == yamlnode.MappingNode {
		return child(merged, step)
	}
	for _, one := range merged.Content {
		if key, value = child(one, step); value != nil {
			return key, value
		}
	}
	return nil, nil
}

// direct is child without merged values. The last one of duplicate keys counts.
func direct(node *yamlnode.Node, step string) (key, value *yamlnode.Node) {
	node = content(node)
	switch node.Kind {
	case yamlnode.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return nil, content(node.Content[i])
		}
	case yamlnode.MappingNode:
		for i := len(node.Content) - 2; i >= 0; i -= 2 {
			if node.Content[i].Value == step {
				return node.Content[i], content(node.Content[i+1])
			}
		}
	default: // no children
	}
	return nil, nil
}
