package main

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"

	"quaymaster.dev/internal/look"
)

//go:embed theme
var theme embed.FS

var layout = template.Must(template.ParseFS(theme, "theme/page.html"))

// view is what the template shows.
type view struct {
	Root, Title, Description, Version string
	Groups                            []viewGroup
	Headings                          []link
	Body                              template.HTML
	Previous, Next                    *link
}

type viewGroup struct {
	Name    string
	Entries []link
}

type link struct {
	Name, URL string
	Current   bool
}

// write writes the site into a folder.
func (s *source) write(folder, version string) error {
	for _, p := range s.pages {
		html, err := s.render(p, version)
		if err != nil {
			return err
		}
		if err := write(folder, address(p.file), html); err != nil {
			return err
		}
	}
	index, err := s.index()
	if err != nil {
		return err
	}
	if err := write(folder, "search.json", index); err != nil {
		return err
	}
	own, err := fs.ReadFile(theme, "theme/style.css")
	if err != nil {
		return err
	}
	if err := write(folder, "style.css", append([]byte(look.CSS), own...)); err != nil {
		return err
	}
	for _, name := range []string{"search.js", "nearest.js", "page.js", "icon.svg", "404.html"} {
		if err := copyFile(folder, name, theme, "theme/"+name); err != nil {
			return err
		}
	}
	for _, file := range s.assets {
		if err := copyFile(folder, file, s.repository, file); err != nil {
			return err
		}
	}
	return nil
}

// address returns the path of a page on the site.
func address(file string) string {
	if path.Base(file) == "README.md" {
		return path.Join(path.Dir(file), "index.html")
	}
	return strings.TrimSuffix(file, ".md") + ".html"
}

// render returns the page of the site for a page of the repository. It rewrites the links of the document.
func (s *source) render(p *page, version string) ([]byte, error) {
	for node := range nodes(p.document) {
		if destination := destination(node); destination != nil {
			*destination = []byte(s.rewrite(p, string(*destination)))
		}
	}
	var body, all bytes.Buffer
	if err := markdown.Renderer().Render(&body, p.text, p.document); err != nil {
		return nil, fmt.Errorf("render %s: %w", p.file, err)
	}
	v := view{
		Root:        strings.Repeat("../", strings.Count(p.file, "/")),
		Title:       p.title,
		Description: p.description(),
		Version:     version,
		Body:        template.HTML(adapt(body.String())), //nolint:gosec // rendered from our own pages
	}
	for _, h := range p.headings {
		if h.level == 2 {
			// Of keys, the name without the prefix that they share.
			name := h.text
			if !strings.Contains(name, " ") {
				name = path.Base(name)
			}
			v.Headings = append(v.Headings, link{Name: name, URL: "#" + h.id})
		}
	}
	s.navigate(&v, p)
	if err := layout.Execute(&all, v); err != nil {
		return nil, fmt.Errorf("render %s: %w", p.file, err)
	}
	return all.Bytes(), nil
}

var (
	codeSpan = regexp.MustCompile(`(?:<pre>)?<code>[^<]*</code>`)
	wrapper  = strings.NewReplacer(".", ".<wbr>", "/", "/<wbr>", "=", "=<wbr>", "_", "_<wbr>")
	tables   = strings.NewReplacer("<table>", `<div class="table"><table>`, "</table>", "</table></div>",
		"<!-- raw HTML omitted -->\n", "")
)

// adapt makes the HTML of a document fit narrow columns: keys and paths in the text may wrap, and wide tables scroll on
// their own. Text contains no tags of its own: they are escaped or omitted.
func adapt(html string) string {
	return codeSpan.ReplaceAllStringFunc(tables.Replace(html), func(code string) string {
		if strings.HasPrefix(code, "<pre>") {
			return code
		}
		text := strings.TrimSuffix(strings.TrimPrefix(code, "<code>"), "</code>")
		return "<code>" + wrapper.Replace(text) + "</code>"
	})
}

// navigate adds the navigation of the site and the neighbours of the page in it to a view.
func (s *source) navigate(v *view, current *page) {
	var before *link
	found := false
	for _, g := range s.groups {
		shown := viewGroup{Name: g.name}
		for _, e := range g.entries {
			l := link{Name: e.name, URL: v.Root + address(e.page.file), Current: e.page == current}
			shown.Entries = append(shown.Entries, l)
			switch {
			case l.Current:
				v.Previous, found = before, true
			case found && v.Next == nil:
				v.Next = &l
			}
			before = &l
		}
		v.Groups = append(v.Groups, shown)
	}
}

// rewrite returns the destination on the site of a link in the repository.
func (s *source) rewrite(from *page, destination string) string {
	file, fragment, hasFragment := strings.Cut(destination, "#")
	if s.pages[path.Join(path.Dir(from.file), file)] == nil || path.Ext(file) != ".md" {
		return destination
	}
	if hasFragment {
		fragment = "#" + fragment
	}
	if path.Base(file) == "README.md" {
		return strings.TrimSuffix(file, "README.md") + "index.html" + fragment
	}
	return strings.TrimSuffix(file, ".md") + ".html" + fragment
}

// description returns the first paragraph of a page.
func (p *page) description() string {
	for node := p.document.FirstChild(); node != nil; node = node.NextSibling() {
		if node.Kind() == ast.KindParagraph {
			return p.plain(node)
		}
	}
	return ""
}

func copyFile(folder, name string, from fs.FS, file string) error {
	raw, err := fs.ReadFile(from, file)
	if err != nil {
		return fmt.Errorf("copy %s: %w", file, err)
	}
	return write(folder, name, raw)
}

func write(folder, name string, content []byte) error {
	file := filepath.Join(folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // a site is not secret
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
