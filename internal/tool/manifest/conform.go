package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"quaymaster.dev/internal/rules/annotation"
)

// conform returns the part of a value that matches a Go type, and reports the rest. The library's decoder stops at the
// first value of another type and does not report which element of a list or map it was. ok is false if nothing of the
// value matches.
func (d *decoding) conform(value any, t reflect.Type, path string) (fitting any, ok bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if value == nil {
		return nil, true
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return value, d.readable(value, t, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		if fields, ok := value.(map[string]any); ok {
			return d.conformStruct(fields, t, path), true
		}
	case reflect.Map:
		if fields, ok := value.(map[string]any); ok {
			return d.conformMap(fields, t, path), true
		}
	case reflect.Slice:
		if elements, ok := value.([]any); ok {
			return d.conformSlice(elements, t, path), true
		}
	case reflect.String:
		return d.conformString(value, path)
	case reflect.Bool:
		if _, ok := value.(bool); ok {
			return value, true
		}
	case reflect.Int32, reflect.Int64:
		return d.conformInteger(value, t, path)
	default:
		return value, true
	}
	d.report(path, "must be "+typeName(t)+", not "+valueName(value), "correct the value")
	return nil, false
}

// readable tries to decode a value of a type with its own decoder, such as a quantity or a time.
func (d *decoding) readable(value any, t reflect.Type, path string) bool {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		d.report(path, "must be a valid "+t.Name()+": "+err.Error(), "correct the value")
	}
	return err == nil
}

func (d *decoding) conformStruct(fields map[string]any, t reflect.Type, path string) map[string]any {
	types := fieldTypes(t)
	fitting := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		if types[name] == nil {
			remedy := "remove it or correct its name"
			nearest, slips := annotation.Nearest(name, slices.Sorted(maps.Keys(types)))
			if annotation.Near(name, slips) {
				remedy = fmt.Sprintf("did you mean %q?", nearest)
			}
			d.report(at, "unknown field", remedy)
			continue
		}
		if value, ok := d.conform(fields[name], types[name], at); ok {
			fitting[name] = value
		}
	}
	return fitting
}

// known caches the fields of each struct type.
var known sync.Map

// fieldTypes returns the types of the fields of a struct by their JSON names.
func fieldTypes(t reflect.Type) map[string]reflect.Type {
	if types, ok := known.Load(t); ok {
		return types.(map[string]reflect.Type) // the only type stored
	}
	types := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "" && f.Anonymous:
			maps.Copy(types, fieldTypes(f.Type))
		case name != "" && name != "-":
			types[name] = f.Type
		}
	}
	known.Store(t, types)
	return types
}

func (d *decoding) conformMap(fields map[string]any, t reflect.Type, path string) map[string]any {
	fitting := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if value, ok := d.conform(fields[key], t.Elem(), path+"["+key+"]"); ok {
			fitting[key] = value
		}
	}
	return fitting
}

// conformSlice replaces elements that do not match by nil, so that the indexes of the others do not change.
func (d *decoding) conformSlice(elements []any, t reflect.Type, path string) []any {
	fitting := make([]any, len(elements))
	for i, element := range elements {
		fitting[i], _ = d.conform(element, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
	}
	return fitting
}

// conformString converts a number or a boolean to its source text, which was obviously meant.
func (d *decoding) conformString(value any, path string) (any, bool) {
	switch value.(type) {
	case string:
		return value, true
	case bool, json.Number:
		text := d.object.written(path)
		d.report(path, "must be a string, not "+valueName(value), "quote it: "+strconv.Quote(text))
		return text, true
	}
	d.report(path, "must be a string, not "+valueName(value), "correct the value")
	return nil, false
}

func (d *decoding) conformInteger(value any, t reflect.Type, path string) (any, bool) {
	number, isNumber := value.(json.Number)
	text, isText := value.(string)
	_, err := strconv.ParseInt(number.String()+text, 10, t.Bits())
	if isNumber && err == nil {
		return value, true
	}
	if isText && err == nil {
		d.report(path, "must be an integer, not a string", "remove the quotes")
		return json.Number(text), true
	}
	d.report(path, "must be a "+strconv.Itoa(t.Bits())+"-bit integer", "correct the value")
	return nil, false
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	}
	return "a map of fields"
}

func valueName(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case []any:
		return "a list"
	}
	return "a map of fields"
}
