package stream

import (
	"bytes"
	"encoding/hex"
	"hash/maphash"
	"io"
)

const (
	// maxString is the length of the longest string that is passed on, in JSON.
	maxString = 64 << 10
	// maxAnnotation is the same within annotations. One may have 256 KiB, and the API server writes six bytes for some
	// characters.
	maxAnnotation = 6*maxAnnotations + 64
	// maxRun is the longest run of white space, or of digits, that is passed on.
	maxRun = 256
	window = 4 << 10
)

// seed makes hashes comparable: equal contents of a request have equal hashes.
var seed = maphash.MakeSeed()

// shortener passes JSON on, without the end of very long strings, numbers and white space, so that a decoder, which
// keeps whole tokens, needs little memory. In place of its end, a string has a hash of it: different strings stay
// different. What is not valid is passed on, for the decoder to report it.
type shortener struct {
	source io.Reader
	err    error
	// in has the bytes of an escape sequence that is not complete yet, and after them those that are read next.
	in   [window]byte
	rest int
	// out is the part of buffer that has not been read.
	out    []byte
	buffer [window + 64]byte

	// most is the length of the longest string that is passed on now. It must be more than the decoder reads ahead.
	most     int
	inString bool
	// passed is how much of the current string, or of what is between strings, has been passed on.
	passed int
	// kind and run are the kind of the current run between strings, and its length; only those of long texts are known.
	kind byte
	run  int
	// end is the hash of what the current string lacks, if cut is true.
	end maphash.Hash
	cut bool
}

func (s *shortener) reset(source io.Reader) {
	*s = shortener{source: source, most: maxString}
	s.end.SetSeed(seed)
}

// Read implements io.Reader.
func (s *shortener) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		var n int
		n, s.err = s.source.Read(s.in[s.rest:])
		s.out = s.buffer[:0]
		s.rest = copy(s.in[:], s.shorten(s.in[:s.rest+n]))
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// shorten appends to out what is passed on of b, and returns the part of an escape sequence at its end.
func (s *shortener) shorten(b []byte) (rest []byte) {
	start, i := 0, 0 // what is between them is passed on
	pass := func() {
		s.out = append(s.out, b[start:i]...)
		start = i
	}
	for i < len(b) {
		if !s.inString {
			n := bytes.IndexByte(b[i:], '"')
			if n < 0 {
				n = len(b) - i
			}
			if s.passed += n; s.passed > maxRun {
				pass()
				s.outside(b[i : i+n])
				start += n
			}
			if i += n; i < len(b) {
				i++
				s.inString, s.passed = true, 0
			}
			continue
		}
		room := len(b) - i
		if s.cut = s.cut || s.passed >= s.most; s.cut {
			pass()
		} else {
			room = min(room, s.most-s.passed)
		}
		n := contents(b[i:], room)
		i += n
		if s.cut {
			_, _ = s.end.Write(b[start:i])
			start = i
		} else {
			s.passed += n
		}
		switch {
		case n >= room:
			continue
		case b[i] == '"':
			pass()
			s.close()
		case b[i] == '\\' && escape(b[i:]) == incomplete && s.err == nil:
			pass()
			return b[i:]
		}
		i++ // it ends the string, or is not valid
	}
	pass()
	return nil
}

// close ends a string.
func (s *shortener) close() {
	if s.cut {
		s.out = append(s.out, "…"...)
		s.out = hex.AppendEncode(s.out, s.end.Sum(nil))
		s.end.Reset()
	}
	s.inString, s.cut, s.passed, s.kind, s.run = false, false, 0, 0, 0
}

// outside passes on what is outside of strings, without the ends of long runs.
func (s *shortener) outside(b []byte) {
	for _, c := range b {
		kind := kinds[c]
		if kind == 0 || kind != s.kind {
			s.kind, s.run = kind, 0
		}
		if s.run++; kind == 0 || s.run <= maxRun {
			s.out = append(s.out, c)
		}
	}
}

// The kinds of bytes between strings.
const (
	space byte = iota + 1
	digit
)

// kinds has the kind of each byte between strings.
var kinds = func() (all [256]byte) {
	for _, c := range " \t\r\n" {
		all[c] = space
	}
	for c := '0'; c <= '9'; c++ {
		all[c] = digit
	}
	return all
}()

// special has the bytes within strings that are not passed on without a look.
var special = func() (all [256]bool) {
	for c := range ' ' {
		all[c] = true
	}
	all['"'], all['\\'] = true, true
	return all
}()

// contents returns the length of the valid contents of a string at the beginning of b: whole escape sequences, and at
// most as much of b as it takes for room.
func contents(b []byte, room int) (n int) {
	for n < room {
		if !special[b[n]] {
			n++
			continue
		}
		if b[n] != '\\' {
			return n
		}
		length := escape(b[n:])
		if length <= 0 {
			return n
		}
		n += length
	}
	return n
}

// incomplete is the length of an escape sequence of which only the beginning is known.
const incomplete = -1

// escape returns the length of the escape sequence at the beginning of b; 0 if it is not valid.
func escape(b []byte) int {
	if len(b) < 2 {
		return incomplete
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
	default:
		return 0
	}
	for i := 2; i < 6; i++ {
		if i == len(b) {
			return incomplete
		}
		if c := b[i]; c-'0' > 9 && c|0x20-'a' > 5 {
			return 0
		}
	}
	return 6
}
