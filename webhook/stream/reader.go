// Package stream reads JSON into Go values while it arrives, in one pass and without reflection, by the rules of the API
// server: those of encoding/json, except that the names of fields are case-sensitive. What is not read into a value is
// never in memory as a whole, and what is read is bounded.
package stream

import (
	"bytes"
	"cmp"
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

const (
	// ShortBytes is the length of inputs that cost no more than others.
	ShortBytes = 16 << 10
	// maxBuffer is how large the buffer of the decoder may become for one value: enough for the longest string.
	maxBuffer = 4 << 20
	// maxKept bounds what one object is read into. Of the objects that etcd stores, none needs as much.
	maxKept = 8 << 20
	// pooledBuffer is the length of the largest buffer that is kept for other inputs.
	pooledBuffer = 32 << 10
	// textBytes is the memory that strings are allocated together in; if there are many of them, it becomes more.
	textBytes = 2 << 10
)

// Input is a JSON text.
type Input struct {
	io.Reader
	// Short is true if there are at most ShortBytes.
	Short bool
	// Large is called once, when more than ShortBytes have turned out to be of interest; an error ends the reading.
	Large func() error
}

// LimitError reports that an input contains more than is read. The rest of it has not been read.
type LimitError struct {
	// Field is the path of the field that is too large.
	Field string
	// Message says what must hold, and Remedy what to do.
	Message, Remedy string
}

func (l *LimitError) Error() string { return l.Field + " " + l.Message }

// Reader reads one JSON text, value by value. After an error other than a value of the wrong type, it reads nothing
// more. A value of the wrong type is skipped; null leaves what it is read into unchanged, except where a method says
// otherwise.
type Reader struct {
	tokens *jsontext.Decoder
	input  Input
	short  shortener
	// passed is how much the decoder got, and largest the longest buffer that it had to fill.
	passed, largest int
	// text has the strings that were read last.
	text strings.Builder
	name []byte
	// kept is what the current object needs, and before what came before it.
	kept, before int
	// stopped and mismatch are the first error of each kind.
	stopped, mismatch error
}

// lenient holds the rules of encoding/json for duplicate names and invalid UTF-8.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

var readers = sync.Pool{New: func() any { return &Reader{tokens: jsontext.NewDecoder(strings.NewReader(""))} }}

// Read calls read with a Reader of the input, which must be a single JSON value. The Reader must not be used afterwards.
func Read(input Input, read func(*Reader)) error {
	r, _ := readers.Get().(*Reader)
	r.input = input
	if !input.Short {
		r.short.reset(input.Reader)
		r.input.Reader = &r.short
	}
	r.tokens.Reset((*source)(r), lenient)
	read(r)
	err := r.end()
	// Nothing of the input is kept.
	*r = Reader{tokens: r.tokens, name: r.name[:0], largest: r.largest}
	if r.largest < pooledBuffer {
		readers.Put(r)
	}
	return err
}

// source is what the decoder reads.
type source Reader

// Read implements io.Reader. The decoder reads into what is left of its buffer, after it has doubled it if less than a
// quarter was left.
func (s *source) Read(p []byte) (int, error) {
	s.largest = max(s.largest, len(p))
	if len(p) > maxBuffer {
		(*Reader)(s).limit(fmt.Sprintf("must have values of at most %d bytes", maxBuffer*3/4))
		return 0, s.stopped
	}
	// The decoder must not read far ahead, because how long strings may be depends on where they are.
	n, err := s.input.Reader.Read(p[:min(len(p), window)])
	if s.passed += n; s.passed > ShortBytes && s.input.Large != nil {
		large := s.input.Large
		s.input.Large = nil
		if err := large(); err != nil {
			return 0, err
		}
	}
	return n, err
}

// end returns the first error. Nothing may follow the value.
func (r *Reader) end() error {
	if r.stopped == nil {
		if _, err := r.tokens.ReadToken(); err == nil {
			r.stopped = errors.New("nothing may follow the first value")
		} else if !errors.Is(err, io.EOF) {
			r.stop(err)
		}
	}
	if r.stopped != nil {
		return r.stopped
	}
	return r.mismatch
}

// Apart calls read for one object, and returns the first value of the wrong type in it. It does not count as an error
// of the whole.
func (r *Reader) Apart(read func()) error {
	before := r.mismatch
	r.mismatch, r.before, r.kept = nil, r.before+r.kept, 0
	read()
	inside := r.mismatch
	r.mismatch = before
	return inside
}

// Kept returns about how much memory the values that were read need.
func (r *Reader) Kept() int { return r.before + r.kept }

// Members reads an object, and yields the name of each member, which is valid until the next value is read. The loop must
// read or skip that value.
func (r *Reader) Members() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for more := r.open('{', "an object"); more && r.more('}'); {
			more = yield(r.unquoted(r.value()))
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
	if kind := r.tokens.PeekKind(); kind != first {
		if r.Skip(); kind != 'n' {
			r.mismatched(expected)
		}
		return false
	}
	r.token()
	return r.stopped == nil
}

// more reports whether an object or array goes on. If not, it reads its last token.
func (r *Reader) more(last jsontext.Kind) bool {
	if r.stopped == nil && r.tokens.PeekKind() == last {
		r.token()
		return false
	}
	return r.stopped == nil
}

func (r *Reader) token() {
	if _, err := r.tokens.ReadToken(); err != nil {
		r.stop(err)
	}
}

// value reads a value, which is in memory as a whole; nil after an error.
func (r *Reader) value() jsontext.Value {
	if r.stopped != nil {
		return nil
	}
	value, err := r.tokens.ReadValue()
	if err != nil {
		r.stop(err)
		return nil
	}
	return value
}

func (r *Reader) stop(err error) {
	if r.stopped != nil {
		return
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	r.stopped = err
}

// limit ends the reading of an input that contains too much.
func (r *Reader) limit(message string) {
	path := strings.Split(strings.TrimPrefix(string(r.tokens.StackPointer()), "/request"), "/")[1:]
	if len(path) > 1 && (path[0] == "object" || path[0] == "oldObject") {
		path = path[1:]
	}
	field := strings.Join(path[:min(len(path), 2)], ".")
	r.stop(&LimitError{
		Field: cmp.Or(field[:min(len(field), 100)], "object"), Message: message,
		Remedy: "make the object smaller: it cannot be validated",
	})
}

// mismatched records that the last value is of the wrong type.
func (r *Reader) mismatched(expected string) {
	if r.mismatch != nil || r.stopped != nil {
		return
	}
	where := string(r.tokens.StackPointer())
	if where == "" {
		where = "it"
	}
	r.mismatch = fmt.Errorf("%s must be %s", where, expected)
}

// unquoted returns the text of a string until the next one is read. Like encoding/json, it replaces what is not valid
// UTF-8.
func (r *Reader) unquoted(value jsontext.Value) []byte {
	if value == nil {
		return nil
	}
	text := value[1 : len(value)-1]
	if bytes.IndexByte(text, '\\') < 0 && utf8.Valid(text) {
		return text
	}
	r.name, _ = jsontext.AppendUnquote(r.name[:0], value) // the error is about invalid UTF-8
	return r.name
}

// keep returns a string that stays valid. Strings share memory, so that they cost few allocations.
func (r *Reader) keep(text []byte) string {
	if len(text) == 0 || !r.count(len(text)) {
		return ""
	}
	if r.text.Cap()-r.text.Len() < len(text) {
		r.text = strings.Builder{}
		r.text.Grow(max(len(text), textBytes, min(r.kept, 16*textBytes)))
	}
	start := r.text.Len()
	r.text.Write(text)
	return r.text.String()[start:]
}

// count reports whether an object may have that many bytes more.
func (r *Reader) count(n int) bool {
	if r.kept += n; r.kept <= maxKept {
		return r.stopped == nil
	}
	r.limit(fmt.Sprintf("must need at most %d bytes of memory", maxKept))
	return false
}
