package manifest

import (
	"strconv"
	"strings"
	"unicode/utf8"

	yamlnode "go.yaml.in/yaml/v3" //nolint:depguard // as in parse.go
)

// Place is where something stands in the source.
type Place struct {
	// Line and Column, both from 1, are those of the key, or of the element of a list.
	Line, Column int
	// Mark is the column of the value and Width how long it is, where it stands on the same line; else they are those of the key.
	Mark, Width int
	// Text is the line.
	Text string
}

// Find gives the place of a path such as metadata.annotations[example.com/key] or spec.ports[0].protocol. What is missing is
// where the object begins.
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

// place is that of a value with its key; an element of a list has none.
func (o *Object) place(key, value *yamlnode.Node) Place {
	at := key
	if at == nil {
		at = value
	}
	p := Place{Line: at.Line + o.above, Column: at.Column, Mark: at.Column, Width: width(at)}
	if value.Kind == yamlnode.ScalarNode && value.Line == at.Line && width(value) > 0 {
		p.Mark, p.Width = value.Column, width(value)
	}
	if p.Line <= len(o.source.lines) {
		p.Text = strings.TrimRight(string(o.source.lines[p.Line-1]), "\r")
	}
	p.Width = max(1, min(p.Width, utf8.RuneCountInString(p.Text)-p.Mark+1))
	return p
}

// width is how many characters a scalar of one line takes.
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

// steps takes a path apart.
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

// content is what a document or an alias stands for.
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

// child gives the value of a key, or an element of a list, which has no key. What is merged in with << counts where the key itself
// is missing. It is for what has been decoded: the decoder refuses objects that hold themselves.
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

// direct is child without what is merged in. Of keys that occur twice the last one counts.
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
	default: // nothing is below
	}
	return nil, nil
}
