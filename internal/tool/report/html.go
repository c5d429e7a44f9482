package report

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"

	"quaymaster.dev/internal/look"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/visible"
)

// The parts of the page. They are not templates: executing those would keep all methods of all types in the program.
var (
	//go:embed page/page.html
	skeleton string
	//go:embed page/page.css
	ownStyle string
	//go:embed page/page.js
	script string
)

var style = look.CSS + ownStyle

// HTML writes one page that needs nothing else: the findings with their remedies, and a filter.
func HTML(w io.Writer, results []Result, title, summary string, tool Tool) error {
	var body strings.Builder
	if ids := findingIDs(results); len(ids) > 0 {
		writeFilter(&body, results, ids)
		for i := range results {
			writeObject(&body, &results[i])
		}
		writeHelp(&body, ids, tool)
	} else {
		body.WriteString("<p>There are no findings.</p>\n")
		for i := range results {
			writeObject(&body, &results[i])
		}
	}
	policy := "default-src 'none'; style-src '" + hashOf(style) + "'; script-src '" + hashOf(script) + "'; base-uri 'none'; form-action 'none'"
	out := bufio.NewWriter(w)
	_, err := strings.NewReplacer(
		"{{policy}}", html.EscapeString(policy), "{{title}}", text(title), "{{summary}}", text(summary), "{{tool}}", text("quayctl "+tool.Version),
		"{{style}}", style, "{{script}}", script, "{{body}}", body.String(),
	).WriteString(out, skeleton)
	if err != nil {
		return err
	}
	return out.Flush()
}

// text returns a text for HTML, with every character visible.
func text(s string) string { return html.EscapeString(visible.Text(s)) }

// prose returns a text for HTML whose lines were broken for something else.
func prose(s string) string { return text(strings.Join(strings.Fields(s), " ")) }

// hashOf returns the hash with which a policy lets a browser use what is in the page itself.
func hashOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// idCount is how often a finding occurs.
type idCount struct {
	id string
	n  int
}

// findingIDs returns the ids of findings, the most frequent ones first.
func findingIDs(results []Result) []idCount {
	counts := map[string]int{}
	for _, r := range results {
		for _, f := range r.Findings {
			counts[f.ID]++
		}
	}
	ids := make([]idCount, 0, len(counts))
	for id, n := range counts {
		ids = append(ids, idCount{id, n})
	}
	slices.SortFunc(ids, func(a, b idCount) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.id, b.id)) })
	return ids
}

// writeFilter writes the form of the filter, which the script shows.
func writeFilter(b *strings.Builder, results []Result, ids []idCount) {
	b.WriteString(`<form id="filter" hidden>
<label class="field">Object, field, message or remedy ( / ) <input type="search" name="q" autocomplete="off" spellcheck="false"></label>
<label class="field">Finding <select name="id"><option value="">all</option>`)
	for _, i := range ids {
		fmt.Fprintf(b, `<option value="%s">%s (%d)</option>`, text(i.id), text(i.id), i.n)
	}
	b.WriteString("</select></label>\n<fieldset><legend>Severity</legend>")
	for _, s := range []finding.Severity{finding.Error, finding.Warning, finding.Note} {
		if n := Count(results, s); n > 0 {
			fmt.Fprintf(b, `<label><input type="checkbox" name="severity" value="%s" checked> %s</label>`, s, number(n, string(s)))
		}
	}
	b.WriteString("</fieldset>\n<p id=\"shown\" role=\"status\"></p>\n</form>\n")
}

// writeObject writes an object with its findings.
func writeObject(b *strings.Builder, r *Result) {
	if len(r.Findings) == 0 && len(r.Defaults) == 0 {
		return
	}
	fmt.Fprintf(b, "<section class=\"object\">\n<h2><bdi>%s</bdi>", text(r.Object.String()))
	if r.File != "" {
		fmt.Fprintf(b, " <small><bdi>%s</bdi>:%d</small>", text(r.File), r.Line)
	}
	b.WriteString("</h2>\n")
	if len(r.Findings) > 0 {
		b.WriteString("<ol>\n")
		for _, f := range r.Findings {
			writeFinding(b, f)
		}
		b.WriteString("</ol>\n")
	}
	for i, d := range r.Defaults {
		if i == 0 {
			b.WriteString("<ul class=\"defaults\">\n")
		}
		fmt.Fprintf(b, "<li>admission adds <code>%s: %s</code> (%s)</li>\n", text(d.Key), text(strconv.Quote(d.Value)), text(d.origin()))
	}
	if len(r.Defaults) > 0 {
		b.WriteString("</ul>\n")
	}
	b.WriteString("</section>\n")
}

func writeFinding(b *strings.Builder, f Finding) {
	fmt.Fprintf(b, "<li class=\"finding %s\" data-severity=\"%s\" data-id=\"%s\">\n", text(string(f.Severity)), text(string(f.Severity)), text(f.ID))
	fmt.Fprintf(b, "<p><span class=\"severity\">%s</span> <code>%s</code>", text(string(f.Severity)), text(f.Path))
	if f.Line > 0 {
		fmt.Fprintf(b, " <small>line %d</small>", f.Line)
	}
	fmt.Fprintf(b, "</p>\n<p>%s</p>\n", prose(f.Message))
	if f.Remedy != "" {
		fmt.Fprintf(b, "<p class=\"remedy\">Remedy: %s</p>\n", prose(f.Remedy))
	}
	switch line := []rune(f.Excerpt.Text); {
	case f.Excerpt.Mark >= 1 && f.Excerpt.Mark <= len(line):
		from := f.Excerpt.Mark - 1
		to := min(len(line), from+max(1, f.Excerpt.Width))
		fmt.Fprintf(b, "<pre tabindex=\"0\" aria-label=\"Line %d\">%s<mark>%s</mark>%s</pre>\n", f.Line, code(line[:from]), code(line[from:to]), code(line[to:]))
	case f.Value != "":
		fmt.Fprintf(b, "<p>Value: <code>%s</code></p>\n", text(f.Value))
	}
	fmt.Fprintf(b, "<p><small><a href=\"#about-%s\">%s</a></small></p>\n</li>\n", text(f.ID), text(f.ID))
}

// code returns a part of a line of the source, whose tabs stay.
func code(part []rune) string {
	return strings.ReplaceAll(text(strings.ReplaceAll(string(part), "\t", "  ")), "\n", " ")
}

// writeHelp writes what the findings mean.
func writeHelp(b *strings.Builder, ids []idCount, tool Tool) {
	b.WriteString("<section class=\"object\">\n<h2>What the findings mean</h2>\n<dl class=\"about\">\n")
	for _, i := range ids {
		fmt.Fprintf(b, "<div id=\"about-%s\"><dt>%s</dt>", text(i.id), text(i.id))
		if rule, known := tool.Rule(i.id); known {
			fmt.Fprintf(b, "<dd>%s <a href=\"%s\" rel=\"noreferrer\">More about %s</a></dd>", prose(rule.Help), text(rule.helpURI()), text(i.id))
		} else {
			b.WriteString("<dd>It is not described.</dd>")
		}
		b.WriteString("</div>\n")
	}
	b.WriteString("</dl>\n</section>\n")
}
