package stream

import (
	"encoding/hex"
	"hash/maphash"
	"io"
	"math"
)

const (
	// maxString is the length of the longest string that is passed on: that of the longest value of an annotation. An escape
	// sequence counts as one byte, although the API server writes six for some. With one more and the quotation marks, the
	// buffer of the decoder would double once again.
	maxString = maxAnnotations - 1
	// maxRun is the longest run of white space, or of digits, that is passed on.
	maxRun = 256
)

// seed makes hashes comparable: equal contents of a request have equal hashes.
var seed = maphash.MakeSeed()

// shortener passes JSON on, without the end of very long strings, numbers and white space, so that a decoder, which
// keeps whole tokens, needs little memory. In place of its end, a string has a hash of it: different strings stay
// different. What is not valid is passed on, for the decoder to report it.
type shortener struct {
	source io.Reader
	err    error
	// in has the part of an escape sequence, and after it what is read next.
	in   [4 << 10]byte
	rest int
	// out is what has not been read of buffer.
	out, buffer []byte

	// state is what the last byte belongs to.
	state state
	// run is the length of the current string or, outside of strings, of the current run of one kind. An escape sequence
	// counts as one.
	run int
	// cut is true if the rest of the current string is not passed on, and end the hash of that.
	cut bool
	end maphash.Hash
}

// state is what a byte belongs to.
type state byte

const (
	other state = iota
	space
	digit
	inString
)

func (s *shortener) reset(source io.Reader) {
	*s = shortener{source: source, buffer: s.buffer}
	s.end.SetSeed(seed)
}

// Read implements io.Reader.
func (s *shortener) Read(p []byte) (n int, err error) {
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		n, s.err = s.source.Read(s.in[s.rest:])
		s.out = s.buffer[:0]
		s.rest = copy(s.in[:], s.shorten(s.in[:s.rest+n]))
		s.buffer = s.out
	}
	n = copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// shorten appends to out what is passed on of b, and returns the part of an escape sequence at its end.
func (s *shortener) shorten(b []byte) (rest []byte) {
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case s.state < inString:
			s.outside(c)
		case c == '"':
			if s.cut {
				s.out = append(s.out, "…"...)
				s.out = hex.AppendEncode(s.out, s.end.Sum(nil))
				s.end.Reset()
			}
			s.out = append(s.out, c)
			s.state, s.run, s.cut = other, 0, false
		case c < ' ':
			s.out = append(s.out, c) // it is not valid
		default:
			start, run, most := i, s.run, maxString
			if s.cut = s.cut || run >= maxString; s.cut {
				most = math.MaxInt
			}
			for i < len(b) && run < most && b[i] != '"' && b[i] >= ' ' {
				n := 1
				if b[i] == '\\' {
					n = sequence(b[i:])
				}
				if n == 0 {
					break
				}
				i += n
				run++
			}
			s.run = run
			s.text(b[start:i])
			if i == start { // an escape sequence that is not complete yet, or not valid
				if len(b)-i < 6 && s.err == nil {
					return b[i:]
				}
				s.out = append(s.out, b[i])
				i++
			}
			i--
		}
	}
	return nil
}

// sequence returns the length of the escape sequence at the beginning of b; 0 if it is not a valid one as a whole.
func sequence(b []byte) int {
	switch {
	case len(b) >= 6 && b[1] == 'u' && digits[b[2]] && digits[b[3]] && digits[b[4]] && digits[b[5]]:
		return 6
	case len(b) >= 2 && simple[b[1]]:
		return 2
	}
	return 0
}

// simple has the second characters of escape sequences of two, and digits the hexadecimal digits.
var simple, digits = set(`"\/bfnrt`), set("0123456789abcdefABCDEF")

func set(chars string) (all [256]bool) {
	for _, c := range chars {
		all[c] = true
	}
	return all
}

// text passes on a part of a string, or a part of a hash of it.
func (s *shortener) text(b []byte) {
	if s.cut {
		_, _ = s.end.Write(b)
	} else {
		s.out = append(s.out, b...)
	}
}

// outside passes on a byte outside of strings, unless the run that it belongs to is long.
func (s *shortener) outside(c byte) {
	now := other
	switch {
	case c == '"':
		now = inString
	case c-'0' <= 9:
		now = digit
	case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		now = space
	}
	if now != s.state {
		s.state, s.run = now, 0
	}
	if s.run < maxRun || now == other {
		s.out = append(s.out, c)
	}
	if now != inString {
		s.run++
	}
}
