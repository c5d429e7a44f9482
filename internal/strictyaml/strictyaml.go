// Package strictyaml decodes configuration files strictly: nothing is ignored, and all errors are reported together.
package strictyaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Decode decodes YAML or JSON into the struct that target points to; fields missing in the document keep their values.
// The list contains unknown fields and values of the wrong type, which are skipped; the error is for a document that
// cannot be parsed.
func Decode[T any](data []byte, target *T) (field.ErrorList, error) {
	var document any
	if err := yaml.UnmarshalStrict(data, &document); err != nil {
		return nil, fmt.Errorf("must be valid YAML: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	fields, ok := document.(map[string]any)
	if !ok && document != nil {
		return nil, errors.New("must be a map of fields")
	}
	var errs field.ErrorList
	for {
		data, err := json.Marshal(fields)
		if err != nil {
			return nil, err
		}
		decoded := *target
		strict, err := strictjson.UnmarshalStrict(data, &decoded)
		if mismatch := (*json.UnmarshalTypeError)(nil); errors.As(err, &mismatch) {
			errs = append(errs, field.TypeInvalid(field.NewPath(mismatch.Field), mismatch.Value,
				"must be a "+kind(mismatch.Type)))
			if remove(fields, strings.Split(mismatch.Field, ".")) {
				continue
			}
			// The path does not identify a value inside a list, so it cannot be skipped. Other errors are reported once
			// this one is fixed.
			return errs, nil
		}
		if err != nil {
			return nil, err
		}
		for _, err := range strict {
			var at strictjson.FieldError
			if !errors.As(err, &at) {
				return nil, err
			}
			errs = append(errs, field.Forbidden(field.NewPath(at.FieldPath()),
				"unknown field; remove it or correct its name"))
		}
		*target = decoded
		return errs, nil
	}
}

func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "map of fields"
	case reflect.Slice:
		return "list"
	}
	return t.Kind().String()
}

// remove deletes a nested field. It returns false if there is no such field.
func remove(fields map[string]any, path []string) bool {
	value, found := fields[path[0]]
	if len(path) == 1 || !found {
		delete(fields, path[0])
		return found
	}
	inner, ok := value.(map[string]any)
	return ok && remove(inner, path[1:])
}
