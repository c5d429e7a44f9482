package webhook

import (
	"encoding/json"
	"maps"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
)

// Patch collects what a mutating webhook adds to an object, as a JSON Patch (RFC 6902).
type Patch struct {
	// operations is the patch without the bracket at its end; empty for an empty patch.
	operations []byte
	// err is the first value that could not be encoded.
	err error
}

// Add adds a value at a path, a JSON Pointer of plain characters, or replaces the existing one. Add a whole map or list only where there is none: it would
// overwrite what others wrote.
func (p *Patch) Add(path string, value any) {
	encoded, err := json.Marshal(value)
	if err != nil && p.err == nil {
		p.err = err
	}
	p.start(path)
	p.end(append(p.operations, encoded...))
}

// AddEntries adds entries to the map at a path, in the order of their keys. present is the object's map at that path;
// the whole map is added only if present is nil.
func (p *Patch) AddEntries(path string, present, entries map[string]string) {
	switch {
	case len(entries) == 0:
	case present == nil:
		p.start(path)
		p.end(appendMap(p.operations, entries))
	default:
		var few keyBuffer
		for _, key := range few.sorted(entries) {
			p.start(path, key)
			p.end(appendText(p.operations, entries[key]))
		}
	}
}

// start begins an operation, which ends with its value, at a path and further steps, which are keys.
func (p *Patch) start(path string, steps ...string) {
	const ordinary = 1000 // bytes of a patch that sets a few annotations
	separator := byte(',')
	if p.operations == nil {
		p.operations, separator = make([]byte, 0, ordinary), '['
	}
	p.operations = append(append(p.operations, separator), `{"op":"add","path":"`...)
	p.operations = append(p.operations, path...)
	for _, step := range steps {
		p.operations = appendStep(p.operations, step)
	}
	p.operations = append(p.operations, `","value":`...)
}

// appendStep appends a key as a step of a JSON Pointer (RFC 6901).
func appendStep(path []byte, key string) []byte {
	path = append(path, '/')
	var few [256]byte
	quoted := appendText(few[:0], key)
	for _, c := range quoted[1 : len(quoted)-1] {
		switch c {
		case '~':
			path = append(path, "~0"...)
		case '/':
			path = append(path, "~1"...)
		default:
			path = append(path, c)
		}
	}
	return path
}

func (p *Patch) end(operations []byte) {
	operations = append(operations, '}')
	p.operations = operations
}

// Into sets the patch in the response; an empty patch leaves the response unchanged.
func (p Patch) Into(response *admissionv1.AdmissionResponse) error {
	if p.err != nil {
		return p.err
	}
	if len(p.operations) > 0 {
		list := p.operations
		list = append(list, ']')
		response.Patch, response.PatchType = list, &patchType
	}
	return nil
}

// patchType is shared by all responses and must not be changed.
var patchType = admissionv1.PatchTypeJSONPatch

// keyBuffer is memory for the keys of a map with few entries.
type keyBuffer [8]string

// sorted returns the keys of a map in order.
func (b *keyBuffer) sorted(entries map[string]string) []string {
	keys := slices.AppendSeq(b[:0], maps.Keys(entries))
	slices.Sort(keys)
	return keys
}
