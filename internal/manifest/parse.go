// Package manifest reads manifests as kubectl does, tells everything in them that the API server could not decode, and remembers
// where in the source each field stands.
package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	yamlnode "go.yaml.in/yaml/v3" //nolint:depguard // sigs.k8s.io/yaml, which decodes the values, does not tell where they stand
	"sigs.k8s.io/yaml"
)

// File is what was read of one file.
type File struct {
	Name string
	// Objects are those that were wanted, in their order; those of Lists are among them.
	Objects []*Object
	// Problems are why the file, or a document of it, could not be read.
	Problems []Problem
}

// Problem is why something could not be read.
type Problem struct {
	File string
	// Line is 0 if the problem is of the whole file.
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
	// Line is where the object begins.
	Line int
	node *yamlnode.Node
	// data is the object as the API server would get it.
	data   json.RawMessage
	source *source
	// above is how many lines of the file stand before the object's document.
	above int
}

// source is the text of a file, by lines.
type source struct{ lines [][]byte }

// Parse reads the documents of a file as far as they hold objects of wanted kinds. All others pass without a word, but one that cannot
// be parsed, for nobody knows what it holds.
func Parse(name string, data []byte, wanted func(apiVersion, kind string) bool) File {
	f := File{Name: name}
	src := &source{lines: bytes.Split(data, []byte("\n"))}
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
		if top.identify("", ""); !isList(top.node, top.Kind) && !wanted(top.APIVersion, top.Kind) {
			continue
		}
		var err error
		if top.data, err = d.decode(); err != nil {
			f.Problems = append(f.Problems, d.problem(name, err))
			continue
		}
		f.Objects = append(f.Objects, top.flatten(wanted)...)
	}
	return f
}

// decode gives what the API server would get: kubectl reads yes as true, say, and 010 as 8.
func (d document) decode() (json.RawMessage, error) {
	if d.json {
		return d.text, nil
	}
	return yaml.YAMLToJSON(d.text)
}

// lineOf finds the line in an error of the decoder.
var lineOf = regexp.MustCompile(`line (\d+): `)

// countsFromZero are the errors in which the library does not make a line's number of the line's index.
var countsFromZero = regexp.MustCompile(`^did not find expected ('|<|key$|node content$)`)

func (d document) problem(name string, err error) Problem {
	p := Problem{File: name, Line: d.above + 1}
	text := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: ")
	if found := lineOf.FindStringSubmatchIndex(text); found != nil {
		if line, err := strconv.Atoi(text[found[2]:found[3]]); err == nil {
			p.Line = d.above + line
			text = text[:found[0]] + text[found[1]:]
			if countsFromZero.MatchString(text) && line < bytes.Count(d.text, []byte("\n"))+1 {
				p.Line++
			}
		}
	}
	p.Message = "must be YAML or JSON: " + text
	if bytes.Contains(d.text, []byte("{{")) {
		p.Message += "; this looks like a template: render it first, as in helm template CHART | quayctl lint -f -"
	}
	return p
}

// identify reads what the object is, which the items of a typed List need not say.
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

func isList(node *yamlnode.Node, kind string) bool {
	_, items := direct(node, "items")
	return strings.HasSuffix(kind, "List") && items != nil && items.Kind == yamlnode.SequenceNode
}

// flatten gives the object itself if it is wanted, or those of a List.
func (o *Object) flatten(wanted func(apiVersion, kind string) bool) []*Object {
	if !isList(o.node, o.Kind) {
		if wanted(o.APIVersion, o.Kind) {
			return []*Object{o}
		}
		return nil
	}
	_, items := direct(o.node, "items")
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(o.data, &list); err != nil {
		return nil // there is a list of items, whatever they are
	}
	apiVersion, kind := "", ""
	if o.Kind != "List" {
		apiVersion, kind = o.APIVersion, strings.TrimSuffix(o.Kind, "List")
	}
	var objects []*Object
	for i := range min(len(list.Items), len(items.Content)) {
		item := &Object{File: o.File, node: content(items.Content[i]), data: list.Items[i], source: o.source, above: o.above}
		item.identify(apiVersion, kind)
		objects = append(objects, item.flatten(wanted)...)
	}
	return objects
}
