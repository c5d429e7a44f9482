package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	strictjson "sigs.k8s.io/json"
)

// Decode decodes an object into its API type and returns all mistakes in the order of the source. Invalid values are
// dropped, or replaced by what was obviously meant, so that the rest of the object can be validated.
func Decode[T any](o *Object) (*T, []Mistake) {
	d := &decoding{object: o, mistakes: o.duplicates(o.node, "")}
	decoded := new(T)
	if unknown, err := strictjson.UnmarshalStrict(o.data, decoded); err == nil && len(unknown) == 0 {
		return decoded, d.mistakes
	}
	decoded = new(T)
	if err := d.repair(reflect.TypeFor[T](), decoded); err != nil {
		d.report("", "cannot be decoded: "+err.Error(), "correct the object")
	}
	slices.SortStableFunc(d.mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Place.Line, b.Place.Line), cmp.Compare(a.Place.Column, b.Place.Column))
	})
	return decoded, d.mistakes
}

// repair decodes the values that match the type.
func (d *decoding) repair(t reflect.Type, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(d.object.data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return err
	}
	fitting, _ := d.conform(value, t, "")
	data, err := json.Marshal(fitting)
	if err != nil {
		return err
	}
	return strictjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// decoding collects the mistakes of an object.
type decoding struct {
	object   *Object
	mistakes []Mistake
}

func (d *decoding) report(path, message, remedy string) {
	d.mistakes = append(d.mistakes, Mistake{
		Path: path, Value: d.object.written(path), Message: message, Remedy: remedy, Place: d.object.Find(path),
	})
}
