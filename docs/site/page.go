package main

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown reads what Git hosts read: CommonMark with tables, bare links and strikethrough.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(newHighlighter(), 100))))

// page is a Markdown file.
type page struct {
	file     string // path in the repository
	title    string // text of the first heading
	headings []heading
	text     []byte
	document ast.Node
}

// heading is a heading of a page.
type heading struct {
	level int
	text  string
	id    string // the anchor that Git hosts give it
}

// parse reads a page and gives its headings their anchors.
func parse(file string, source []byte) *page {
	p := &page{file: file, title: file, text: source, document: markdown.Parser().Parse(text.NewReader(source))}
	used := map[string]int{}
	for node := range nodes(p.document) {
		if table, ok := node.(*east.Table); ok {
			p.label(table)
		}
		h, ok := node.(*ast.Heading)
		if !ok {
			continue
		}
		words := p.plain(h)
		id := anchor(words)
		if count := used[id]; count > 0 {
			used[id]++
			id += "-" + strconv.Itoa(count)
		}
		used[id]++
		h.SetAttributeString("id", []byte(id))
		if len(p.headings) == 0 {
			p.title = words
		}
		p.headings = append(p.headings, heading{h.Level, words, id})
	}
	return p
}

// label gives each cell of a table the heading of its column, which narrow screens show before it.
func (p *page) label(table *east.Table) {
	var headings []string
	for row := table.FirstChild(); row != nil; row = row.NextSibling() {
		i := 0
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			if row.Kind() == east.KindTableHeader {
				headings = append(headings, p.plain(cell))
			} else if i < len(headings) {
				cell.SetAttributeString("data-label", []byte(headings[i]))
			}
			i++
		}
	}
}

// anchor returns the anchor that Git hosts give the first heading with a text.
func anchor(words string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, words)
}

// anchors returns the anchors of a page.
func (p *page) anchors() map[string]bool {
	all := map[string]bool{}
	for _, h := range p.headings {
		all[h.id] = true
	}
	return all
}

// links returns the destinations of the links and images of a page, as they are written.
func (p *page) links() []string {
	var all []string
	for node := range nodes(p.document) {
		if destination := destination(node); destination != nil {
			all = append(all, string(*destination))
		}
	}
	return all
}

// destination returns where a link or image leads, or nil for other nodes.
func destination(node ast.Node) *[]byte {
	switch node := node.(type) {
	case *ast.Link:
		return &node.Destination
	case *ast.Image:
		return &node.Destination
	default:
		return nil
	}
}

// plain returns the text of a node without markup, with single spaces.
func (p *page) plain(node ast.Node) string {
	var b bytes.Buffer
	for n := range nodes(node) {
		switch n := n.(type) {
		case *ast.Text:
			value := n.Segment.Value(p.text)
			if n.Parent().Kind() != ast.KindCodeSpan {
				value = util.UnescapePunctuations(value)
			}
			b.Write(value)
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.AutoLink:
			b.Write(n.Label(p.text))
		case *ast.CodeBlock, *ast.FencedCodeBlock:
			b.Write(n.Lines().Value(p.text))
		}
		if n.Type() == ast.TypeBlock {
			b.WriteByte(' ')
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// nodes yields a node and its descendants in the order of the text.
func nodes(root ast.Node) func(yield func(ast.Node) bool) {
	return func(yield func(ast.Node) bool) {
		_ = ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
			if entering && !yield(node) {
				return ast.WalkStop, nil
			}
			return ast.WalkContinue, nil
		})
	}
}
