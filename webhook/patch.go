package webhook

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
)

// Operation is an operation of a JSON Patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Patch collects what a mutating webhook adds to an object.
type Patch []Operation

// Add adds a value at a path or replaces the existing one. Add a whole map or list only where there is none: it would
// overwrite what others wrote.
func (p *Patch) Add(path string, value any) {
	*p = append(*p, Operation{Op: "add", Path: path, Value: value})
}

// AddEntries adds entries to the map at a path, in the order of their keys. present is the object's map at that path;
// the whole map is added only if present is nil.
func (p *Patch) AddEntries(path string, present, entries map[string]string) {
	switch {
	case len(entries) == 0:
	case present == nil:
		p.Add(path, entries)
	default:
		*p = slices.Grow(*p, len(entries))
		for _, key := range sortedKeys(entries) {
			p.Add(path+Pointer(key), entries[key])
		}
	}
}

// Into sets the patch in the response; an empty patch leaves the response unchanged.
func (p Patch) Into(response *admissionv1.AdmissionResponse) error {
	if len(p) == 0 {
		return nil
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	patchType := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = raw, &patchType
	return nil
}

// sortedKeys is slices.Sorted(maps.Keys(entries)) with one allocation.
func sortedKeys(entries map[string]string) []string {
	keys := slices.AppendSeq(make([]string, 0, len(entries)), maps.Keys(entries))
	slices.Sort(keys)
	return keys
}

// escape escapes a step of a JSON Pointer.
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer returns the JSON Pointer (RFC 6901) for steps, each a key or an index.
func Pointer(steps ...string) string {
	var path strings.Builder
	for _, step := range steps {
		path.WriteByte('/')
		_, _ = escape.WriteString(&path, step) // a strings.Builder has no errors
	}
	return path.String()
}
