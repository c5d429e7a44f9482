package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/visible"
	"quaymaster.dev/internal/wrap"
)

// Terminal escape sequences.
const (
	bold   = "\x1b[1m"
	red    = "\x1b[1;31m"
	yellow = "\x1b[1;33m"
	cyan   = "\x1b[36m"
	plain  = "\x1b[0m"
)

// Text writes one line per finding, which is broken between words if width is not 0. With color, which is for terminals,
// it also shows the line of the source.
func Text(w io.Writer, results []Result, color bool, width int) error {
	out := bufio.NewWriter(w)
	paint := func(_, text string) string { return text }
	if color {
		paint = func(with, text string) string { return with + text + plain }
	}
	for _, r := range results {
		for _, f := range r.Findings {
			place := fmt.Sprintf("%s:%d:%d:", r.File, f.Line, f.Column)
			severity := paint(red, "error:")
			if f.Severity != finding.Error {
				severity = paint(yellow, string(f.Severity)+":")
			}
			text := f.text() + " [" + f.ID + "]"
			if width > 0 {
				start := len(place) + len(" ") + len(f.Severity) + len(": ")
				text = wrap.Text(text, start, len("    "), width)
			}
			text = strings.TrimSuffix(text, "["+f.ID+"]") + paint(cyan, "["+f.ID+"]")
			fmt.Fprintln(out, paint(bold, place), severity, text)
			if color {
				f.Excerpt.show(out)
			}
		}
		for i, d := range r.Defaults {
			if i == 0 {
				fmt.Fprintf(out, "%s:%d: admission adds to %s:\n", r.File, r.Line, visible.Text(r.Object.String()))
			}
			fmt.Fprintf(out, "    %s: %q  # %s\n", d.Key, d.Value, d.origin())
		}
	}
	return out.Flush()
}

func (d Default) origin() string {
	if d.Policy == "" {
		return "built-in"
	}
	return d.Policy
}

// show writes the line and a mark below it. Tabs in the line are kept before the mark, so that it is aligned.
func (e Excerpt) show(out io.Writer) {
	text := []rune(e.Text)
	if e.Mark < 1 || e.Mark > len(text) {
		return
	}
	at := e.Mark - 1
	before, marked := source(text[:at]), source(text[at:min(len(text), at+e.Width)])
	blank := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, before)
	fmt.Fprintf(out, "    %s\n    %s%s%s%s\n", before+source(text[at:]), blank, red,
		"^"+strings.Repeat("~", max(0, utf8.RuneCountInString(marked)-1)), plain)
}

// source returns a part of a line of the source with every character visible, except tabs.
func source(text []rune) string {
	parts := strings.Split(string(text), "\t")
	for i, part := range parts {
		parts[i] = visible.Text(part)
	}
	return strings.Join(parts, "\t")
}

// Table writes a table with one line per finding.
func Table(w io.Writer, results []Result) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, r := range results {
		if i == 0 {
			fmt.Fprintln(out, "OBJECT\tSEVERITY\tFINDING\tPROBLEM")
		}
		for _, f := range r.Findings {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", visible.Text(r.Object.String()), f.Severity, f.ID, f.text())
		}
	}
	return out.Flush()
}

// JSON writes the results for programs.
func JSON(w io.Writer, results []Result) error {
	if results == nil {
		results = []Result{}
	}
	return Encode(w, struct {
		Results []Result `json:"results"`
	}{results})
}

// Encode writes readable JSON: indented, and without escaping <, > and &.
func Encode(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// GitHub writes workflow commands with which GitHub Actions annotates the lines of a pull request.
func GitHub(w io.Writer, results []Result) error {
	data := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	out := bufio.NewWriter(w)
	for _, r := range results {
		for _, f := range r.Findings {
			command := string(f.Severity)
			if f.Severity == finding.Note {
				command = "notice"
			}
			fmt.Fprintf(out, "::%s file=%s,line=%d,col=%d,title=%s::%s\n",
				command, property.Replace(r.File), f.Line, f.Column, property.Replace(f.ID), data.Replace(f.text()))
		}
	}
	return out.Flush()
}
