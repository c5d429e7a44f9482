package tree

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
)

// Differences lists the fields in which a load balancer differs from want, in the form "path: is -> wanted". The parts of
// a tree are named by what identifies them.
func Differences(want cloudv1.LoadBalancerSpec, lb *cloudv1.LoadBalancer) []string {
	before, after := leaves(ordered(Of(lb))), leaves(ordered(want))
	all := maps.Clone(before)
	maps.Copy(all, after)
	var list []string
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if before[path] != after[path] {
			list = append(list, fmt.Sprintf("%s: %s -> %s", path, shown(before, path), shown(after, path)))
		}
	}
	return list
}

func shown(values map[string]string, path string) string {
	if value, set := values[path]; set {
		return value
	}
	return "unset"
}

// leaves returns the values of a tree by their paths, in JSON.
func leaves(spec cloudv1.LoadBalancerSpec) map[string]string {
	raw, _ := json.Marshal(spec) // a tree of strings and numbers can be encoded
	var tree map[string]any
	_ = json.Unmarshal(raw, &tree)
	values := map[string]string{}
	flatten(values, "", tree)
	return values
}

func flatten(values map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			next := path + "." + key
			if path == "" {
				next = key
			} else if path == "tags" {
				next = "tags[" + key + "]"
			}
			flatten(values, next, member)
		}
		return
	case []any:
		if flattenParts(values, path, v) {
			return
		}
	}
	raw, _ := json.Marshal(value) // it was decoded from JSON
	values[path] = string(raw)
}

// flattenParts is flatten for a list whose elements have a key, a family or both. It returns false for other lists.
func flattenParts(values map[string]string, path string, list []any) bool {
	names := make([]string, len(list))
	for i, element := range list {
		part, _ := element.(map[string]any)
		var identity []string
		for _, member := range []string{"key", "family"} {
			if id, ok := part[member].(string); ok {
				identity = append(identity, id)
			}
		}
		if len(identity) == 0 {
			return false
		}
		names[i] = strings.Join(identity, ",")
	}
	for i, element := range list {
		flatten(values, path+"["+names[i]+"]", element)
	}
	return true
}
