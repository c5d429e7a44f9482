package jsonreader

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Skip reads a value of any type.
func (r *Reader) Skip() {
	if err := r.tokens.SkipValue(); err != nil {
		r.fail(err)
	}
}

// Null reports whether the next value is null, and reads it then.
func (r *Reader) Null() bool {
	if r.tokens.PeekKind() != 'n' {
		return false
	}
	r.Skip()
	return true
}

// IsString reports whether the next value is a string.
func (r *Reader) IsString() bool { return r.tokens.PeekKind() == '"' }

// Raw calls read for the next value, and returns the part of the input that it has read.
func (r *Reader) Raw(read func()) []byte {
	start := r.tokens.InputOffset()
	read()
	return bytes.TrimLeft(r.input[start:r.tokens.InputOffset()], ":, \t\r\n")
}

// scalar reads a value of the kind. It returns nil for null, and for a value of another type.
func (r *Reader) scalar(kind jsontext.Kind, expected string) jsontext.Value {
	value := r.value()
	switch {
	case value == nil || value.Kind() == 'n':
		return nil
	case value.Kind() != kind:
		r.mismatched(expected)
		return nil
	}
	return value
}

// String reads a string.
func String[T ~string](r *Reader, into *T) {
	if value := r.scalar('"', "a string"); value != nil {
		*into = T(r.unquote(value))
	}
}

// Int32 reads an integer.
func Int32(r *Reader, into *int32) {
	const expected = "an integer of 32 bits"
	value := r.scalar('0', expected)
	if value == nil {
		return
	}
	n, err := strconv.ParseInt(string(value), 10, 32)
	if err != nil {
		r.mismatched(expected)
		return
	}
	*into = int32(n)
}

// Bool reads true or false.
func Bool(r *Reader, into *bool) {
	switch value := r.value(); {
	case value == nil || value.Kind() == 'n':
	case value.Kind() == 't' || value.Kind() == 'f':
		*into = value.Kind() == 't'
	default:
		r.mismatched("true or false")
	}
}

// Unmarshal reads a value into one that decodes itself.
func (r *Reader) Unmarshal(into json.Unmarshaler) {
	if value := r.value(); value != nil {
		if err := into.UnmarshalJSON(value); err != nil {
			r.mismatched("valid: " + err.Error())
		}
	}
}

// Pointer reads a value into what a pointer points to. For null, the pointer becomes nil.
func Pointer[T any](r *Reader, into **T, read func(*Reader, *T)) {
	if r.Null() {
		*into = nil
		return
	}
	if *into == nil {
		*into = new(T)
	}
	read(r, *into)
}

// Strings reads an object with strings as values into a map, in addition to what the map has. For null, it becomes nil.
func Strings(r *Reader, into *map[string]string) {
	if r.Null() {
		*into = nil
		return
	}
	if *into == nil {
		*into = map[string]string{}
	}
	for name := range r.Members() {
		text := ""
		String(r, &text)
		(*into)[name] = text
	}
}

// List reads an array into a slice. For null, it becomes nil. If a name occurs twice, elements of the second array start
// as those of the first, as in encoding/json.
func List[T any](r *Reader, into *[]T, read func(*Reader, *T)) {
	if r.Null() {
		*into = nil
		return
	}
	const few = 2 // most lists have no more elements
	if *into == nil {
		*into = make([]T, 0, few)
	}
	list := (*into)[:0]
	for i := range r.Elements() {
		if i < cap(list) {
			list = list[:i+1]
		} else {
			var zero T
			list = append(list, zero)
		}
		read(r, &list[i])
	}
	if len(list) == 0 {
		list = []T{}
	}
	*into = list
}
