package wrap_test

import (
	"testing"

	"quaymaster.dev/internal/wrap"
)

func TestText(t *testing.T) {
	for want, got := range map[string]string{
		"":                           wrap.Text("", 4, 4, 10),
		"one two\n  three":           wrap.Text("one  two three", 2, 2, 9),
		"äöü äöü\nx":                 wrap.Text("äöü äöü x", 0, 0, 7),
		"a\nlonger-than-the-line\nb": wrap.Text("a longer-than-the-line b", 0, 0, 5),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestParagraphs(t *testing.T) {
	const text = "one two\nthree\n\n  a list is kept\n\nfour five six\n"
	if got, want := wrap.Paragraphs(text, 9), "one two\nthree\n\n  a list is kept\n\nfour five\nsix"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
