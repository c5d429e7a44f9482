package stream

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
)

// shortened returns what is passed on of a text that arrives in pieces.
func shortened(t testing.TB, text string, pieces func(io.Reader) io.Reader) string {
	t.Helper()
	s := &shortener{}
	s.reset(pieces(strings.NewReader(text)))
	got, err := io.ReadAll(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// Long strings lose their ends, and stay different; the rest of the text stays as it is.
func TestShortener(t *testing.T) {
	long := strings.Repeat(`\u003c`, 400_000)
	for name, test := range map[string]struct {
		text string
		most int
	}{
		"short":           {`{"a\"\\":"b","c":[1,2.5e3, true , null]}`, 1 << 20},
		"string":          {`["` + long + `","b"]`, 6*maxString + 100},
		"name":            {`{"` + long + `":1}`, 6*maxString + 100},
		"spaces":          {"[" + strings.Repeat(" \n", 1<<20) + "1]", 2 * maxRun},
		"digits":          {"[1" + strings.Repeat("0", 1<<20) + "]", 2 * maxRun},
		"runes":           {`["` + strings.Repeat("é", 1<<20) + `"]`, maxString + 100},
		"quotation marks": {`["` + strings.Repeat(`\"`, 1<<20) + `"]`, 2*maxString + 100},
	} {
		t.Run(name, func(t *testing.T) {
			got := shortened(t, test.text, iotest.DataErrReader)
			if len(got) > test.most || !json.Valid([]byte(got)) {
				t.Errorf("%d bytes, valid %v: %.100s…%s", len(got), json.Valid([]byte(got)), got, got[max(0, len(got)-60):])
			}
			if name == "short" && got != test.text {
				t.Errorf("got %s", got)
			}
			if again := shortened(t, test.text, iotest.HalfReader); again != got {
				t.Error("the result depends on the pieces in which a text arrives")
			}
		})
	}
	if shortened(t, `"`+long+`a"`, iotest.HalfReader) == shortened(t, `"`+long+`b"`, iotest.HalfReader) {
		t.Error("strings that differ at the end become equal")
	}
}

// What is not valid stays so, wherever it is.
func FuzzShortener(f *testing.F) {
	for _, text := range []string{`"a\`, `"\u00`, `"\u00zz"`, `"\x"`, "\"\x01\"", `"\u003c\n"`, "\xff", `1 2`, `"a" "b"`, `01`} {
		f.Add(text, uint16(0))
		f.Add(text, uint16(20))
	}
	f.Fuzz(func(t *testing.T, text string, long uint16) {
		// A string and runs that are cut before the text begins.
		text = `["` + strings.Repeat("<", maxString*int(long%2)) + text
		got := shortened(t, text, iotest.OneByteReader)
		if json.Valid([]byte(text)) != json.Valid([]byte(got)) {
			t.Errorf("%.100q…: valid %v, shortened %v", text, json.Valid([]byte(text)), json.Valid([]byte(got)))
		}
	})
}

func BenchmarkShortener(b *testing.B) {
	for name, text := range map[string]string{
		"ordinary": `{"` + strings.Repeat(`metadata":{"name":"web-frontend","namespace":"shop"},"`, 20_000),
		"escapes":  `["` + strings.Repeat(`\u003c`, 700_000), "text": `["` + strings.Repeat("text ", 700_000),
		"ports": "[" + strings.Repeat(`{"protocol":"TCP","port":80,"targetPort":80,"nodePort":30000},`, 50_000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			s := &shortener{}
			for b.Loop() {
				s.reset(strings.NewReader(text))
				_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{s}, make([]byte, 4096))
			}
		})
	}
}

// BenchmarkSkip measures what it costs to skip a list of ports.
func BenchmarkSkip(b *testing.B) {
	text := []byte(`{"a":[` + strings.Repeat(`{"protocol":"TCP","port":80,"targetPort":80,"nodePort":30000},`, 50_000) + "1]}")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := Read(Input{Reader: bytes.NewReader(text)}, &struct{}{}); err != nil {
			b.Fatal(err)
		}
	}
}

// An annotation is read as a whole, however its characters are written, also if long strings precede and follow it.
func TestLongAnnotations(t *testing.T) {
	long := strings.Repeat(`\u003c`, maxAnnotations-10)
	text := `{"x":"` + long + `","a":{"a":"` + long + `"},"y":"` + long + long + `","b":{"b":"` + long + `"}}`
	for name, pieces := range map[string]func(io.Reader) io.Reader{"whole": iotest.DataErrReader, "halves": iotest.HalfReader} {
		var into struct {
			A Annotations `json:"a"`
			B Annotations `json:"b"`
			Y string      `json:"y"`
		}
		if err := Read(Input{Reader: pieces(strings.NewReader(text))}, &into); err != nil {
			t.Fatal(name, err)
		}
		const whole, cut = maxAnnotations - 10, maxString + len("…") + 16
		if len(into.A["a"]) != whole || len(into.B["b"]) != whole || len(into.Y) != cut {
			t.Errorf("%s: lengths %d, %d, %d, want %d, %d", name, len(into.A["a"]), len(into.B["b"]), len(into.Y), whole, cut)
		}
	}
}

// Whatever the input, its decoder has a bounded buffer.
func TestMemoryIsBounded(t *testing.T) {
	for name, text := range map[string]string{
		"array":  "[" + strings.Repeat("[1],", 4<<20) + "1]",
		"arrays": strings.Repeat("[", 9000) + strings.Repeat(" ", 16<<20),
		"string": `"` + strings.Repeat("9", 16<<20) + `"`,
		"name":   `{"` + strings.Repeat("9", 16<<20) + `":1}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := &source{decoder: jsontext.NewDecoder(strings.NewReader(""))}
			err := s.read(Input{Reader: strings.NewReader(text)}, &Whole[any]{})
			if (err == nil) != (name == "string" || name == "name") || s.largest > 2*maxBuffer || err == nil && s.largest > 2<<20 {
				t.Errorf("error %v, buffer of %d bytes", err, s.largest)
			}
		})
	}
}

// What is not decoded into a field is skipped without being in memory.
func TestSkippedValuesNeedNoBuffer(t *testing.T) {
	var into struct {
		B int `json:"b"`
	}
	text := `{"a":` + "[" + strings.Repeat(`{"c":"d"},`, 2<<20) + `1],"b":7}`
	s := &source{decoder: jsontext.NewDecoder(strings.NewReader(""))}
	if err := s.read(Input{Reader: strings.NewReader(text)}, &into); err != nil || into.B != 7 || s.largest > ShortBytes {
		t.Errorf("error %v, value %d, buffer of %d bytes", err, into.B, s.largest)
	}
}
