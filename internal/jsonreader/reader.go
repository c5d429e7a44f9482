// Package jsonreader reads JSON into Go values in one pass and without reflection, by the rules of the API server: those
// of encoding/json, except that the names of fields are case-sensitive.
package jsonreader

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Reader reads one JSON text, value by value. After a syntax error, it reads nothing more. A value of the wrong type is
// skipped; null leaves what it is read into unchanged, except where a method says otherwise.
type Reader struct {
	tokens *jsontext.Decoder
	buffer *bytes.Buffer
	input  []byte
	// text is the input. The strings that are read are parts of it, so that they cost one allocation together.
	text string
	// syntax and mismatch are the first error of each kind.
	syntax, mismatch error
}

// lenient holds the rules of encoding/json for duplicate names and invalid UTF-8.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

var readers = sync.Pool{New: func() any {
	buffer := &bytes.Buffer{}
	return &Reader{tokens: jsontext.NewDecoder(buffer), buffer: buffer}
}}

// Read calls read with a Reader of the input, which must be a single JSON value. The Reader must not be used afterwards.
func Read(input []byte, read func(*Reader)) error {
	r, _ := readers.Get().(*Reader)
	defer readers.Put(r)
	defer r.reset(nil)
	r.reset(input)
	read(r)
	return r.end()
}

// reset prepares for an input. It keeps nothing of the one before.
func (r *Reader) reset(input []byte) {
	*r.buffer = *bytes.NewBuffer(input)
	r.tokens.Reset(r.buffer, lenient)
	r.input, r.text = input, string(input)
	r.syntax, r.mismatch = nil, nil
}

// end returns the first error. Nothing may follow the value.
func (r *Reader) end() error {
	if r.syntax == nil {
		if _, err := r.tokens.ReadToken(); err == nil {
			r.syntax = errors.New("nothing may follow the first value")
		} else if !errors.Is(err, io.EOF) {
			r.syntax = err
		}
	}
	if r.syntax != nil {
		return r.syntax
	}
	return r.mismatch
}

// Apart calls read, and returns the first value of the wrong type in what it reads. It does not count as an error of the
// whole.
func (r *Reader) Apart(read func()) error {
	before := r.mismatch
	r.mismatch = nil
	read()
	inside := r.mismatch
	r.mismatch = before
	return inside
}

// Members reads an object, and yields the name of each member. The loop must read or skip its value.
func (r *Reader) Members() iter.Seq[string] {
	return func(yield func(string) bool) {
		for more := r.open('{', "an object"); more && r.more('}'); {
			more = yield(r.unquote(r.value()))
		}
	}
}

// Elements reads an array, and yields the index of each element. The loop must read or skip it.
func (r *Reader) Elements() iter.Seq[int] {
	return func(yield func(int) bool) {
		i := 0
		for more := r.open('[', "an array"); more && r.more(']'); i++ {
			more = yield(i)
		}
	}
}

// open reads the first token of an object or array. It reports false if there is another value.
func (r *Reader) open(first jsontext.Kind, expected string) bool {
	if r.tokens.PeekKind() != first {
		if value := r.value(); value != nil && value.Kind() != 'n' {
			r.mismatched(expected)
		}
		return false
	}
	r.token()
	return r.syntax == nil
}

// more reports whether an object or array goes on. If not, it reads its last token.
func (r *Reader) more(last jsontext.Kind) bool {
	if r.syntax == nil && r.tokens.PeekKind() == last {
		r.token()
		return false
	}
	return r.syntax == nil
}

func (r *Reader) token() {
	if _, err := r.tokens.ReadToken(); err != nil {
		r.fail(err)
	}
}

// value reads a value of any type; nil after a syntax error.
func (r *Reader) value() jsontext.Value {
	value, err := r.tokens.ReadValue()
	if err != nil {
		r.fail(err)
		return nil
	}
	return value
}

func (r *Reader) fail(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if r.syntax == nil {
		r.syntax = err
	}
}

// mismatched records that the last value is of the wrong type.
func (r *Reader) mismatched(expected string) {
	if r.mismatch != nil {
		return
	}
	where := string(r.tokens.StackPointer())
	if where == "" {
		where = "it"
	}
	r.mismatch = fmt.Errorf("%s must be %s", where, expected)
}

// unquote returns the text of a string that was just read. Like encoding/json, it replaces what is not valid UTF-8.
func (r *Reader) unquote(value jsontext.Value) string {
	if value == nil {
		return ""
	}
	end := int(r.tokens.InputOffset())
	text := r.text[end-len(value)+1 : end-1]
	if strings.IndexByte(text, '\\') < 0 && utf8.ValidString(text) {
		return text
	}
	unquoted, _ := jsontext.AppendUnquote(nil, value) // the error is about invalid UTF-8
	return string(unquoted)
}
