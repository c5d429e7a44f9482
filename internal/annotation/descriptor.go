package annotation

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/go-playground/validator/v10"
)

// Descriptor is all there is to know about one key: parser, messages and reference docs come from it.
type Descriptor struct {
	// Key is the whole annotation key, Name the part after the prefix.
	Key, Name string
	// Rule is in go-playground/validator's language with the rules of NewValidator.
	Rule string
	// Default is what holds without the annotation: a value, a sentence where it depends on the Service, or empty for none.
	Default string
	// Example is a good value.
	Example string
	// PortForm tells whether <key>.<port number or name> is understood.
	PortForm bool
	// Immutable keys may not change once a load balancer may exist.
	Immutable bool
	// Applies names what the key needs to have an effect, such as https; empty is nothing.
	Applies string
	// Help is one or two sentences of documentation.
	Help string
	// Also are names under which users look for the key, from other clouds' vocabulary: not understood, but recognised.
	Also []string

	goType   reflect.Type
	index    []int
	validate *validator.Validate
}

// Describe reads the fields of the struct that carry a key tag, nested structs included, in the order of the source.
// Tags: key, validate (the rule), default, example (default: the default), immutable, applies, help, also.
func Describe(prefix string, structure any, portForm bool, v *validator.Validate) []*Descriptor {
	return describe(prefix, reflect.TypeOf(structure), nil, portForm, v)
}

func describe(prefix string, t reflect.Type, at []int, portForm bool, v *validator.Validate) []*Descriptor {
	var all []*Descriptor
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(append([]int(nil), at...), i)
		name, ok := f.Tag.Lookup("key")
		if !ok {
			if f.Type.Kind() == reflect.Struct {
				all = append(all, describe(prefix, f.Type, index, portForm, v)...)
			}
			continue
		}
		d := &Descriptor{
			Key: prefix + name, Name: name, Rule: f.Tag.Get("validate"),
			Default: f.Tag.Get("default"), Example: f.Tag.Get("example"),
			PortForm: portForm, Immutable: f.Tag.Get("immutable") == "true",
			Applies: f.Tag.Get("applies"), Help: f.Tag.Get("help"), Also: strings.Fields(f.Tag.Get("also")),
			goType: f.Type, index: index, validate: v,
		}
		if d.Example == "" {
			d.Example = d.Default
		}
		all = append(all, d)
	}
	return all
}

// Value is an annotation's value as a Go value of the described field's type.
type Value struct{ reflect.Value }

// String is the value if it is text, or its Go notation.
func (v Value) String() string {
	if !v.IsValid() {
		return ""
	}
	return fmt.Sprint(v.Interface())
}

// Parse reads a value. The error completes a sentence that begins with what Allowed returns.
func (d *Descriptor) Parse(raw string) (Value, error) {
	var parsed any
	var err error
	switch d.goType {
	case reflect.TypeFor[int]():
		parsed, err = ParseInt(raw)
	case reflect.TypeFor[time.Duration]():
		parsed, err = ParseDuration(raw)
	case reflect.TypeFor[bool]():
		parsed, err = ParseBool(raw)
	case reflect.TypeFor[string]():
		parsed, err = ParseText(raw)
	case reflect.TypeFor[[]string]():
		parsed, err = ParseList(raw)
	case reflect.TypeFor[map[string]string]():
		parsed, err = ParseTags(raw)
	default:
		panic(fmt.Sprintf("%s: no parser for %s", d.Key, d.goType))
	}
	if err != nil {
		return Value{}, err
	}
	if d.Rule != "" {
		if err := Check(d.validate, parsed, d.Rule); err != nil {
			return Value{}, err
		}
	}
	return Value{reflect.ValueOf(parsed)}, nil
}

// Set puts the value into the described field of the struct that target points to.
func (d *Descriptor) Set(target any, v Value) {
	reflect.ValueOf(target).Elem().FieldByIndex(d.index).Set(v.Value)
}

// Of reads the described field of the struct that source points to.
func (d *Descriptor) Of(source any) Value {
	return Value{reflect.ValueOf(source).Elem().FieldByIndex(d.index)}
}

// Words are the values of a key that has a closed set of them, else nil.
func (d *Descriptor) Words() []string {
	if words, ok := strings.CutPrefix(d.Rule, "oneof="); ok {
		return strings.Fields(words)
	}
	if d.goType.Kind() == reflect.Bool {
		return []string{"true", "false"}
	}
	return nil
}
