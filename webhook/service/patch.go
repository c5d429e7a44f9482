package service

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// operation is one of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const annotationsPath = "/metadata/annotations"

// annotationsPatch adds the annotations, none of which is present. The whole map is added only where there is none (present is
// nil), since it would replace what others wrote.
func annotationsPatch(present, added map[string]string) ([]byte, error) {
	if present == nil {
		return json.Marshal([]operation{{Op: "add", Path: annotationsPath, Value: added}})
	}
	var patch []operation
	for _, key := range slices.Sorted(maps.Keys(added)) {
		patch = append(patch, operation{Op: "add", Path: annotationsPath + "/" + escape(key), Value: added[key]})
	}
	return json.Marshal(patch)
}

// escape makes a key one step of a JSON Pointer (RFC 6901).
func escape(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
