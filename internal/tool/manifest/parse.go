// Package manifest reads manifests as kubectl does, reports everything that the API server could not decode, and
// locates each field in the source.
package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yamlnode "go.yaml.in/yaml/v3" //nolint:depguard // sigs.k8s.io/yaml, which decodes the values, has no positions
	"sigs.k8s.io/yaml"
)

// File is the content of one file.
type File struct {
	Name string
	// Objects holds the wanted objects in their order, including the items of Lists.
	Objects []*Object
	// Skipped counts the other objects by kind.
	Skipped map[string]int
	// Problems holds the reasons why the file, or documents of it, could not be read.
	Problems []Problem

	source *source
}

// Problem is why something could not be read.
type Problem struct {
	File string
	// Line is 0 if the problem concerns the whole file.
	Line    int
	Message string
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Message)
}

// Object is one object of a manifest.
type Object struct {
	File, APIVersion, Kind string
	// Line is where the object starts.
	Line int
	node *yamlnode.Node
	// data is the object as the API server would receive it.
	data   json.RawMessage
	source *source
	// above is the number of lines in the file before the object's document.
	above int
}

// source is the text of a file, by lines.
type source struct{ lines [][]byte }

// Parse parses the documents of a file that contain objects of wanted kinds, and counts the others. A document that
// cannot be parsed, or is no object, is a problem, because its kind is unknown.
func Parse(name string, data []byte, wanted func(apiVersion, kind string) bool) File {
	src := &source{lines: bytes.Split(data, []byte("\n"))}
	f := File{Name: name, Skipped: map[string]int{}, source: src}
	for _, d := range split(data) {
		if d.blank() {
			continue
		}
		var root yamlnode.Node
		if err := yamlnode.Unmarshal(d.positioned(), &root); err != nil {
			f.Problems = append(f.Problems, d.problem(name, err))
			continue
		}
		top := &Object{File: name, node: content(&root), source: src, above: d.above}
		if top.node.Kind != yamlnode.MappingNode {
			f.Problems = append(f.Problems, Problem{
				File: name, Line: top.node.Line + d.above, Message: "must be an object with apiVersion and kind; correct or remove the text",
			})
			continue
		}
		if top.identify("", ""); !isList(top.node, top.Kind) && !wanted(top.APIVersion, top.Kind) {
			f.Skipped[top.Kind]++
			continue
		}
		var err error
		if top.data, err = d.decode(); err != nil {
			f.Problems = append(f.Problems, d.problem(name, err))
			continue
		}
		f.Objects = append(f.Objects, top.flatten(wanted, f.Skipped)...)
	}
	return f
}

// decode returns the JSON that the API server would receive: for example, kubectl converts yes to true and 010 to 8.
func (d document) decode() (json.RawMessage, error) {
	if d.json {
		return d.text, nil
	}
	return yaml.YAMLToJSON(d.text)
}

// lineOf matches the line in an error of the decoder.
var lineOf = regexp.MustCompile(`line (\d+): `)

// valueInError matches what the library prints of a map that is used as a key, as most templates are.
var valueInError = regexp.MustCompile(`(invalid map key): .*`)

// countsFromZero matches the errors in which the library reports the index of the line instead of its number.
var countsFromZero = regexp.MustCompile(`^did not find expected ('|<|key$|node content$)`)

func (d document) problem(name string, err error) Problem {
	p := Problem{File: name, Line: d.above + 1}
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
	text = valueInError.ReplaceAllString(text, "$1")
	if found := lineOf.FindStringSubmatchIndex(text); found != nil {
		if line, err := strconv.Atoi(text[found[2]:found[3]]); err == nil {
			p.Line = d.above + line
			text = text[:found[0]] + text[found[1]:]
			if countsFromZero.MatchString(text) && line < bytes.Count(d.text, []byte("\n"))+1 {
				p.Line++
			}
		}
	}
	p.Message = "must be valid YAML or JSON: " + text
	if bytes.Contains(d.text, []byte("{{")) {
		p.Message += "; this looks like a template; render it first: helm template CHART | quayctl lint -f -"
	}
	return p
}

// identify sets the type of the object, which may be missing in items of a typed List.
func (o *Object) identify(apiVersion, kind string) {
	o.APIVersion, o.Kind = apiVersion, kind
	if _, value := direct(o.node, "apiVersion"); value != nil {
		o.APIVersion = value.Value
	}
	if _, value := direct(o.node, "kind"); value != nil {
		o.Kind = value.Value
	}
	o.Line = o.node.Line + o.above
}

// Has reports whether the object has a value at a path.
func (o *Object) Has(path string) bool { return o.at(path) != nil }

func isList(node *yamlnode.Node, kind string) bool {
	_, items := direct(node, "items")
	return strings.HasSuffix(kind, "List") && items != nil && items.Kind == yamlnode.SequenceNode
}

// flatten returns the object itself if it is wanted, or the wanted items of a List. It counts the others by kind.
func (o *Object) flatten(wanted func(apiVersion, kind string) bool, skipped map[string]int) []*Object {
	if !isList(o.node, o.Kind) {
		if wanted(o.APIVersion, o.Kind) {
			return []*Object{o}
		}
		skipped[o.Kind]++
		return nil
	}
	_, items := direct(o.node, "items")
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(o.data, &list); err != nil {
		return nil // cannot happen: items is a list
	}
	apiVersion, kind := "", ""
	if o.Kind != "List" {
		apiVersion, kind = o.APIVersion, strings.TrimSuffix(o.Kind, "List")
	}
	var objects []*Object
	for i := range min(len(list.Items), len(items.Content)) {
		item := &Object{File: o.File, node: content(items.Content[i]), data: list.Items[i], source: o.source,
			above: o.above}
		item.identify(apiVersion, kind)
		objects = append(objects, item.flatten(wanted, skipped)...)
	}
	return objects
}
