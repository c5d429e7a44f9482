package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// highlighter renders blocks of code with classes for their syntax.
type highlighter struct{ formatter *html.Formatter }

var _ renderer.NodeRenderer = highlighter{}

func newHighlighter() highlighter {
	return highlighter{html.New(html.WithClasses(true), html.PreventSurroundingPre(true))}
}

// RegisterFuncs replaces the renderers of blocks of code.
func (h highlighter) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindCodeBlock, h.render)
	r.Register(ast.KindFencedCodeBlock, h.render)
}

func (h highlighter) render(w util.BufWriter, source []byte, node ast.Node, entering bool) (ast.WalkStatus, error) {
	if !entering {
		return ast.WalkContinue, nil
	}
	given := ""
	if fenced, ok := node.(*ast.FencedCodeBlock); ok {
		given = string(fenced.Language(source))
	}
	code := string(node.Lines().Value(source))
	lexer := lexers.Get(language(given, code))
	if lexer == nil {
		lexer = lexers.Fallback
	}
	tokens, err := lexer.Tokenise(nil, code)
	if err != nil {
		return ast.WalkStop, fmt.Errorf("highlight: %w", err)
	}
	var text bytes.Buffer
	if err := h.formatter.Format(&text, styles.Fallback, tokens); err != nil {
		return ast.WalkStop, fmt.Errorf("highlight: %w", err)
	}
	_, err = fmt.Fprintf(w, "<pre><code>%s</code></pre>\n", text.String())
	return ast.WalkSkipChildren, err
}

// field is the first line of YAML, comments aside.
var field = regexp.MustCompile(`^(#.*\n)*(- )?["\w./-]+:(\s|$)`)

// language returns the language of a block of code: the given one, or for an indented block, which cannot name any, YAML,
// commands, or plain text.
func language(given, code string) string {
	switch {
	case given != "":
		return given
	case strings.HasPrefix(code, "$ ") || strings.Contains(code, "\n$ "):
		return "plaintext" // the page tells commands from what they print
	case field.MatchString(code):
		return "yaml"
	case command.MatchString(code):
		return "bash"
	}
	return "plaintext"
}

// command is the first line of a block of commands, comments and variables aside.
var command = regexp.MustCompile(`^(#.*\n)*([A-Z_]+=\S* )*(\./|sudo |git |make |kubectl |helm |quayctl |mycloud |curl |go |npm |apt|export |cmctl |etcdctl |systemctl |for |cat |bin/)`)
