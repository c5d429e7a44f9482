package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// section is a part of a page that search can find: a heading and what follows it. theme/search.js reads it.
type section struct {
	URL     string `json:"u"` // relative to the root of the site
	Page    string `json:"p"`
	Heading string `json:"h,omitempty"` // empty for what precedes the second heading of a page
	Text    string `json:"t"`
}

// index returns the sections of all pages as JSON.
func (s *source) index() ([]byte, error) {
	var all []section
	for _, p := range s.pages {
		all = append(all, p.sections()...)
	}
	// A stable order, for the same site from the same pages.
	slices.SortStableFunc(all, func(a, b section) int { return strings.Compare(a.URL, b.URL) })
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("write the search index: %w", err)
	}
	return raw, nil
}

// sections returns the sections of a page.
func (p *page) sections() []section {
	found := []section{{URL: address(p.file), Page: p.title}}
	next := 0
	for node := p.document.FirstChild(); node != nil; node = node.NextSibling() {
		if node.Kind() == ast.KindHeading {
			h := p.headings[next]
			if next++; next > 1 {
				found = append(found, section{URL: address(p.file) + "#" + h.id, Page: p.title, Heading: h.text})
			}
			continue
		}
		last := &found[len(found)-1]
		last.Text = strings.TrimSpace(last.Text + " " + p.plain(node))
	}
	return found
}
