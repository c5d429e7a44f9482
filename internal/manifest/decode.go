package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	strictjson "sigs.k8s.io/json"
)

// Decode makes an object of the type that the API has for it, and tells all its mistakes in the order of the source. What is wrong
// is left out, or taken as it was meant, so that the rest can be judged.
func Decode[T any](o *Object) (*T, []Mistake) {
	d := &decoding{object: o, mistakes: o.twice(o.node, "")}
	decoded := new(T)
	if unknown, err := strictjson.UnmarshalStrict(o.data, decoded); err == nil && len(unknown) == 0 {
		return decoded, d.mistakes
	}
	decoded = new(T)
	if err := d.repair(reflect.TypeFor[T](), decoded); err != nil {
		d.report("", "must be an object that the API server can decode: "+err.Error(), "correct it")
	}
	slices.SortStableFunc(d.mistakes, func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Place.Line, b.Place.Line), cmp.Compare(a.Place.Column, b.Place.Column))
	})
	return decoded, d.mistakes
}

// repair decodes what fits into the type.
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
