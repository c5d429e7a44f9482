// Package stream decodes JSON while it arrives, by the rules of the API server: those of encoding/json, except that the
// names of fields are case-sensitive. What is not decoded into a field is never in memory as a whole, and what is decoded
// is bounded.
package stream

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

const (
	// ShortBytes is the length of inputs that cost no more than others.
	ShortBytes = 16 << 10
	// maxBuffer is how large the buffer of the decoder may become for one value: enough for the longest string.
	maxBuffer = 4 << 20
	// growBytes is how much more is decoded at a time.
	growBytes = 64 << 10
	// pooledBuffer is the length of the largest buffer that is kept for other inputs.
	pooledBuffer = 32 << 10
	// maxAnnotations is the total length of annotations that Kubernetes stores.
	maxAnnotations = 256 << 10
	// maxObjects bounds the objects within a value that is decoded as a whole, each of which may need much more memory
	// than its JSON. Of the objects that etcd stores, none has as many.
	maxObjects = 100_000
)

// Input is a JSON text.
type Input struct {
	io.Reader
	// Short is true if there are at most ShortBytes.
	Short bool
	// Grow is called before more bytes than ShortBytes, and than in earlier calls, are decoded; an error ends the reading.
	Grow func(n int) error
}

// LimitError reports that an input contains more than is read. The rest of it has not been read.
type LimitError struct {
	// Field is the path of the field that is too large.
	Field string
	// Message says what must hold.
	Message string
}

func (l *LimitError) Error() string { return l.Field + " " + l.Message }

// Limit returns a LimitError for the current field.
func Limit(d *jsontext.Decoder, format string, args ...any) error {
	path := strings.Split(strings.TrimPrefix(string(d.StackPointer()), "/request"), "/")[1:]
	if len(path) > 1 && (path[0] == "object" || path[0] == "oldObject") {
		path = path[1:]
	}
	field := strings.Join(path[:min(len(path), 2)], ".")
	return &LimitError{
		Field: cmp.Or(field[:min(len(field), 100)], "object"), Message: fmt.Sprintf(format, args...),
	}
}

// rules are those of the API server. Decoding ends at the first value of the wrong type: encoding/json goes on, and has the
// whole text in memory for that.
var rules = json.JoinOptions(
	jsonv1.DefaultOptionsV1(), json.MatchCaseInsensitiveNames(false), jsonv1.ReportErrorsWithLegacySemantics(false),
)

// source is what a decoder reads.
type source struct {
	Input
	decoder *jsontext.Decoder
	short   shortener
	// whole is a short input.
	whole bytes.Buffer
	// passed is how much the decoder got, granted how much it may get, and largest the longest buffer that it had to fill.
	passed, granted, largest int
}

var sources = sync.Pool{New: func() any { return &source{decoder: jsontext.NewDecoder(strings.NewReader(""))} }}

// Read decodes the input, which must be a single JSON value, into what a pointer points to. After an error, it has the
// fields that were decoded before.
func Read(input Input, into any) error {
	s, _ := sources.Get().(*source)
	err := s.read(input, into)
	// Nothing of the input is kept.
	s.whole.Reset()
	*s = source{decoder: s.decoder, whole: s.whole, largest: s.largest}
	if s.largest < pooledBuffer {
		sources.Put(s)
	}
	return err
}

func (s *source) read(input Input, into any) error {
	s.Input = input
	if input.Short {
		// The decoder uses the buffer as it is, which is faster than reading piece by piece.
		if _, err := s.whole.ReadFrom(input.Reader); err != nil {
			return err
		}
		s.decoder.Reset(&s.whole, rules)
	} else {
		s.short.reset(input.Reader)
		s.Reader = &s.short
		s.decoder.Reset(s, rules)
	}
	err := json.UnmarshalDecode(s.decoder, into)
	if err == nil {
		if _, err = s.decoder.ReadToken(); errors.Is(err, io.EOF) {
			return nil
		} else if err == nil {
			err = errors.New("nothing may follow the first value")
		}
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return described(err)
}

// Read implements io.Reader. The decoder reads into what is left of its buffer, after it has doubled it if less than a
// quarter was left.
func (s *source) Read(p []byte) (int, error) {
	s.largest = max(s.largest, len(p))
	if len(p) > maxBuffer {
		return 0, Limit(s.decoder, "must have values of at most %d bytes", maxBuffer*3/4)
	}
	n, err := s.Reader.Read(p)
	if s.passed += n; s.passed > max(s.granted, ShortBytes) && s.Grow != nil {
		if err := s.Grow(growBytes); err != nil {
			return 0, err
		}
		s.granted += growBytes
	}
	return n, err
}

// Part decodes a value into what a pointer points to. If a value within it is of the wrong type, Part skips the rest and
// returns the problem as mismatch.
func Part(d *jsontext.Decoder, into any) (mismatch, err error) {
	depth := d.StackDepth()
	err = json.UnmarshalDecode(d, into)
	if _, mismatched := errors.AsType[*json.SemanticError](err); !mismatched {
		return nil, err
	}
	if _, exceeded := errors.AsType[*LimitError](err); exceeded {
		return nil, err
	}
	err = described(err)
	for d.StackDepth() > depth { // wrong values have been read in part at least
		if _, err := d.ReadToken(); err != nil {
			return nil, err
		}
	}
	return err, nil
}

// described says what must hold, if a value is of the wrong type.
func described(err error) error {
	mismatch, ok := errors.AsType[*json.SemanticError](err)
	if !ok || mismatch.GoType == nil || mismatch.Err != nil {
		return err
	}
	expected := cmp.Or(map[reflect.Kind]string{
		reflect.String: "a string", reflect.Slice: "an array", reflect.Bool: "true or false", reflect.Int32: "an integer of 32 bits",
	}[mismatch.GoType.Kind()], "an object")
	return fmt.Errorf("%s must be %s", cmp.Or(string(mismatch.JSONPointer), "it"), expected)
}

// Whole is a value of any type that is decoded as a whole, and in memory meanwhile, so it must be a part of an object
// that is usually small.
type Whole[T any] struct{ Value T }

// UnmarshalJSONFrom decodes the value.
func (w *Whole[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if bytes.Count(value, []byte{'{'}) > maxObjects {
		return Limit(d, "must have at most %d objects", maxObjects)
	}
	return json.Unmarshal(value, &w.Value, rules)
}

// Annotations are all annotations of an object. If they are longer than Kubernetes allows, that is a LimitError: the API
// server would refuse the object after admission.
type Annotations map[string]string

// UnmarshalJSONFrom decodes the annotations.
func (a *Annotations) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	return texts(d, (*map[string]string)(a), maxAnnotations, func(string) bool { return true })
}

// Strings decodes an object with strings as values into a map, in addition to what the map has; only the entries whose
// keys are wanted. For null, the map becomes nil.
func Strings(d *jsontext.Decoder, into *map[string]string, wanted func(key string) bool) error {
	return texts(d, into, maxBuffer, wanted)
}

// texts decodes an object with at most that many bytes in wanted entries.
func texts(d *jsontext.Decoder, into *map[string]string, most int, wanted func(key string) bool) error {
	if d.PeekKind() != '{' {
		return json.UnmarshalDecode(d, into)
	}
	if *into == nil {
		*into = map[string]string{}
	}
	_, err := d.ReadToken()
	var entry struct{ key, text string }
	for size := 0; err == nil && d.PeekKind() != '}'; {
		if err = json.UnmarshalDecode(d, &entry.key); err != nil {
			return err
		}
		entry.text = ""
		if err = json.UnmarshalDecode(d, &entry.text); err == nil && wanted(entry.key) {
			(*into)[entry.key] = entry.text
			size += len(entry.key) + len(entry.text)
		}
		if size > most {
			return Limit(d, "must have at most %d bytes in total", most)
		}
	}
	if err == nil {
		_, err = d.ReadToken()
	}
	return err
}
