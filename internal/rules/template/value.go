package template

import (
	"fmt"
	"strconv"
	"strings"
)

// Value is a whole object, decoded from JSON.
type Value map[string]any

var _ Source = Value(nil)

// Expand implements Source.
func (v Value) Expand(path string) [][]int {
	before, after, some := strings.Cut(path, "[]")
	value := v.at(before)
	if !some && value != nil {
		return [][]int{nil}
	}
	var all [][]int
	elements, _ := value.([]any)
	for i := range elements {
		for _, inner := range v.Expand(fmt.Sprintf("%s[%d]%s", before, i, after)) {
			all = append(all, append([]int{i}, inner...))
		}
	}
	return all
}

// Text implements Source.
func (v Value) Text(path string) string {
	text, _ := v.at(path).(string)
	return text
}

// Strings returns the strings at a path, such as annotations, by their keys.
func (v Value) Strings(path string) map[string]string {
	texts := map[string]string{}
	fields, _ := v.at(path).(map[string]any)
	for key, value := range fields {
		if text, is := value.(string); is {
			texts[key] = text
		}
	}
	return texts
}

// at returns the value at a path with indexes, or nil.
func (v Value) at(path string) any {
	var value any = map[string]any(v)
	for step := range strings.SplitSeq(strings.ReplaceAll(path, "[", ".["), ".") {
		index, inList := strings.CutPrefix(step, "[")
		if !inList {
			fields, _ := value.(map[string]any)
			value = fields[step]
			continue
		}
		elements, _ := value.([]any)
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || i < 0 || i >= len(elements) {
			return nil
		}
		value = elements[i]
	}
	return value
}
