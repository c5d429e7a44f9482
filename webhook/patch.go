package webhook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
)

// Patch collects what a mutating webhook adds to an object, as a JSON Patch (RFC 6902).
type Patch []operation

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Add adds a value at a path, a JSON Pointer, or replaces the existing one. Add a whole map or list only where there is
// none: it would overwrite what others wrote.
func (p *Patch) Add(path string, value any) { *p = append(*p, operation{"add", path, value}) }

// step escapes a key as a step of a JSON Pointer (RFC 6901).
var step = strings.NewReplacer("~", "~0", "/", "~1")

// AddEntries adds entries to the map at a path, in the order of their paths. present is the object's map at that path;
// the whole map is added only if present is nil.
func (p *Patch) AddEntries(path string, present, entries map[string]string) {
	if present == nil && len(entries) > 0 {
		p.Add(path, entries)
		return
	}
	first := len(*p)
	for key, value := range entries {
		p.Add(path+"/"+step.Replace(key), value)
	}
	slices.SortFunc((*p)[first:], func(a, b operation) int { return strings.Compare(a.Path, b.Path) })
}

// Into sets the patch in the response; an empty patch leaves the response unchanged.
func (p Patch) Into(response *admissionv1.AdmissionResponse) error {
	if len(p) == 0 {
		return nil
	}
	encoded, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	response.Patch, response.PatchType = encoded, new(admissionv1.PatchTypeJSONPatch)
	return nil
}
