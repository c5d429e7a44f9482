package stream

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"reflect"
	"regexp"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Skip reads a value of any type.
func (r *Reader) Skip() {
	if err := r.tokens.SkipValue(); err != nil {
		r.stop(err)
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

// scalar reads a value of the kind. It returns nil for null, and for a value of another type.
func (r *Reader) scalar(kind jsontext.Kind, expected string) jsontext.Value {
	switch r.tokens.PeekKind() {
	case kind:
		return r.value()
	case 'n':
		r.Skip()
	default:
		r.Skip()
		r.mismatched(expected)
	}
	return nil
}

// String reads a string.
func String[T ~string](r *Reader, into *T) {
	if value := r.scalar('"', "a string"); value != nil {
		*into = T(r.keep(r.unquoted(value)))
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
	switch kind := r.tokens.PeekKind(); kind {
	case 't', 'f':
		r.Skip()
		*into = kind == 't'
	default:
		r.scalar('n', "true or false")
	}
}

// number matches quantities that take no time to parse. Others, such as 1e-30000000, take seconds.
var number = regexp.MustCompile(`^[+-]?[0-9.]{1,64}([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

// Quantity reads a quantity.
func Quantity(r *Reader, into *resource.Quantity) {
	const expected = "a quantity such as 10Gi, of fewer than 65 digits and with a small exponent"
	kind := r.tokens.PeekKind()
	if kind != '"' && kind != '0' {
		if r.Skip(); kind != 'n' {
			r.mismatched(expected)
			return
		}
		*into = resource.Quantity{}
		return
	}
	text := bytes.TrimSpace(bytes.Trim(r.value(), `"`))
	if !number.Match(text) || into.UnmarshalJSON(text) != nil {
		r.mismatched(expected)
	}
}

// decoding holds the rules by which the API server decodes JSON, for types that are not read by functions.
var decoding = json.JoinOptions(jsonv1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false))

// maxObjects bounds the objects within a value that is read by reflection, each of which may need much more memory than
// its JSON. Of the objects that etcd stores, none has as many.
const maxObjects = 100_000

// Unmarshal reads a value of any type, by reflection. It is in memory as a whole, so it must be a part of an object that
// is usually small.
func (r *Reader) Unmarshal(into any) {
	value := r.value()
	if bytes.Count(value, []byte{'{'}) > maxObjects {
		r.limit(fmt.Sprintf("must have at most %d objects", maxObjects))
		return
	}
	if value == nil || !r.count(len(value)) {
		return
	}
	if err := json.Unmarshal(value, into, decoding); err != nil {
		r.mismatched("valid: " + err.Error())
	}
}

const (
	// maxAnnotations is the total length of annotations that Kubernetes stores.
	maxAnnotations = 256 << 10
	// entryBytes is the memory that an entry of a map needs in addition to its text.
	entryBytes = 48
)

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

// Strings reads an object with strings as values into a map, in addition to what the map has; only the entries whose
// keys are wanted. For null, the map becomes nil.
func Strings(r *Reader, into *map[string]string, wanted func(key []byte) bool) {
	if r.Null() {
		*into = nil
		return
	}
	if *into == nil {
		*into = map[string]string{}
	}
	for name := range r.Members() {
		if !wanted(name) {
			r.scalar('"', "a string")
			continue
		}
		r.count(entryBytes)
		key, text := r.keep(name), ""
		String(r, &text)
		(*into)[key] = text
	}
}

// Annotations reads all annotations of an object. If they are longer than Kubernetes allows, that is a LimitError: the API
// server would refuse the object after admission.
func Annotations(r *Reader, into *map[string]string) {
	size := func() int { return r.kept - entryBytes*len(*into) }
	most := size() + maxAnnotations
	bounded := func([]byte) bool {
		if size() > most {
			r.limit(fmt.Sprintf("must have at most %d bytes in total", maxAnnotations))
		}
		return true
	}
	r.short.most = maxAnnotation
	Strings(r, into, bounded)
	r.short.most = maxString
	bounded(nil)
}

// List reads an array into a slice. For null, it becomes nil. If a name occurs twice, elements of the second array start
// as those of the first, as in encoding/json.
//
// The elements beyond a number are not read: they stay empty except for the last one, for which rest is called with a
// hash of them, so that different lists stay different.
func List[T any](r *Reader, into *[]T, most int, read func(*Reader, *T), rest func(*T, string)) {
	if r.Null() {
		*into = nil
		return
	}
	const few = 2 // most lists have no more elements
	if *into == nil {
		*into = make([]T, 0, few)
	}
	list := (*into)[:0]
	size, surplus := int(reflect.TypeFor[T]().Size()), 0
	var hash maphash.Hash
	for i := range r.Elements() {
		switch {
		case !r.count(size):
			return
		case i >= most:
			if i == most {
				hash.SetSeed(seed)
			}
			_, _ = hash.Write(r.value())
			surplus++
			continue
		case i < cap(list):
			list = list[:i+1]
		default:
			var zero T
			list = append(list, zero)
		}
		read(r, &list[i])
	}
	if len(list) == 0 {
		list = []T{}
	}
	if surplus > 0 {
		list = append(list, make([]T, surplus)...)
		rest(&list[len(list)-1], hex.EncodeToString(hash.Sum(nil)))
	}
	*into = list
}

// Texts is like List for strings.
func Texts[T ~string](r *Reader, into *[]T, most int) {
	List(r, into, most, String[T], func(text *T, rest string) { *text = T(rest) })
}
