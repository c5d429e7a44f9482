package main

import (
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/net/html"
)

const root = "../.."

// TestLinks: read reports every dead link between the files of the repository.
func TestLinks(t *testing.T) {
	if _, err := read(os.DirFS(root)); err != nil {
		t.Error(err)
	}
}

func TestDeadLinks(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	repository := fstest.MapFS{
		"README.md":                   file("# A\n\n[b](docs/b.md#no-anchor) [folder](docs) [gone](docs/gone.md)"),
		"CHANGELOG.md":                file("# Changes\n\n[ok](docs/b.md#the-b-c-d) [insecure](http://example.com)"),
		"CONTRIBUTING.md":             file("# C\n\n[again](docs/b.md#same-1) [Upper](docs/B.md) [manifest](examples/a.yaml)"),
		"SECURITY.md":                 file("# Security"),
		"charts/quaymaster/README.md": file("# Chart\n\n[up](../../docs/b.md)\n\n`[code](none.md)`\n\n    [code](none.md)\n"),
		"docs/README.md":              file("# Docs\n\n## Start\n\n- [b](b.md)\n"),
		"docs/b.md":                   file("# B\n\n## The `b`: *c*, D!\n\n## Same\n\n## Same\n\n[here](#same)"),
		"examples/a.yaml":             file("a: 1"),
	}
	_, err := read(repository)
	want := `CHANGELOG.md: link "http://example.com": must be relative or use https
CONTRIBUTING.md: link "docs/B.md": docs/B.md does not exist
README.md: link "docs": must lead to a file, because a site cannot show a folder
README.md: link "docs/b.md#no-anchor": docs/b.md has no heading with this anchor
README.md: link "docs/gone.md": docs/gone.md does not exist`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
}

// TestMentions: pages that programs, the chart, tests and comments mention exist, with their anchors.
func TestMentions(t *testing.T) {
	source := readSource(t)
	mention := regexp.MustCompile(`docs/(?:README|architecture|explanation|guides|operations|reference)` +
		`[a-z0-9/_-]*\.(?:md|html)(?:#[a-z0-9_-]+)?`)
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", ".dev", "bin", "docs/site"}, file) {
				return fs.SkipDir
			}
			return nil
		}
		raw, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			return err
		}
		for _, found := range mention.FindAllString(string(raw), -1) {
			link := strings.Replace(found, ".html", ".md", 1)
			if _, err := source.follow(&page{file: "README.md"}, link); err != nil {
				t.Errorf("%s mentions %s: %v", file, found, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSite: every link of the site leads to a page and an element of the site, every page is reached from the start
// page, and no page loads anything from another host or from the root of its own.
func TestSite(t *testing.T) {
	folder := t.TempDir()
	source := readSource(t)
	if err := source.write(folder, "v1"); err != nil {
		t.Fatal(err)
	}
	pages := map[string]*element{}
	for _, p := range source.pages {
		pages[address(p.file)] = parseHTML(t, filepath.Join(folder, address(p.file)))
	}
	reached := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if reached[name] || pages[name] == nil {
			return
		}
		reached[name] = true
		for _, link := range pages[name].links {
			to, err := followHTML(folder, pages, name, link)
			if err != nil {
				t.Errorf("%s: %s: %v", name, link, err)
			}
			visit(to)
		}
	}
	visit("index.html")
	for name := range pages {
		if !reached[name] {
			t.Errorf("no link leads from the start page to %s", name)
		}
	}
}

// TestNavigation: every page is in the contents, except for the pages of catalogs, which have a list of their own.
func TestNavigation(t *testing.T) {
	source := readSource(t)
	listed := map[string]bool{contents: true}
	for _, group := range source.groups {
		for _, entry := range group.entries {
			if listed[entry.page.file] {
				t.Errorf("%s contains %s twice", contents, entry.page.file)
			}
			listed[entry.page.file] = true
		}
	}
	for _, file := range slices.Sorted(maps.Keys(source.pages)) {
		if !listed[file] && path.Dir(file) != "docs/reference/catalogs" {
			t.Errorf("%s is not in the navigation; add it to %s", file, contents)
		}
	}
}

// TestIndex: search finds sections by their text and code.
func TestIndex(t *testing.T) {
	p := parse("docs/a.md", []byte("# A `b`\n\nIntro.\n\n## Rights\n\nRun `c`:\n\n    d e\n\n| f | g |\n|---|---|\n| h | <!-- i --> |\n"))
	want := []section{
		{URL: "docs/a.html", Page: "A b", Text: "Intro."},
		{URL: "docs/a.html#rights", Page: "A b", Heading: "Rights", Text: "Run c: d e f g h"},
	}
	if got := p.sections(); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestTableLabels: on narrow screens, cells show the heading of their column.
func TestTableLabels(t *testing.T) {
	p := parse("docs/a.md", []byte("# A\n\n| `f` & g | h |\n|---|---|\n| 1 | 2 |\n"))
	html, err := (&source{pages: map[string]*page{"docs/a.md": p}}).render(p, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<td data-label="f &amp; g">1</td>`, `<td data-label="h">2</td>`, "<th>h</th>"} {
		if !strings.Contains(string(html), want) {
			t.Errorf("no %s in:\n%s", want, html)
		}
	}
}

func readSource(t *testing.T) *source {
	t.Helper()
	s, err := read(os.DirFS(root))
	if err != nil {
		t.Skip("see TestLinks")
	}
	return s
}

// element holds what a page of the site contains.
type element struct {
	ids   map[string]bool
	links []string
	loads []string // URLs of what browsers load with the page
}

func parseHTML(t *testing.T, file string) *element {
	t.Helper()
	reader, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	node, err := html.Parse(reader)
	if err != nil {
		t.Fatal(err)
	}
	e := &element{ids: map[string]bool{"": true}}
	for n := range node.Descendants() {
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				e.ids[a.Val] = true
			case a.Key == "href" && n.Data == "a":
				e.links = append(e.links, a.Val)
			case a.Key == "href", a.Key == "src":
				e.links = append(e.links, a.Val)
				e.loads = append(e.loads, a.Val)
			}
		}
	}
	return e
}

// followHTML returns the path on the site to which a link of a page leads.
func followHTML(folder string, pages map[string]*element, from, link string) (string, error) {
	target, err := url.Parse(link)
	if err != nil {
		return "", err
	}
	if target.Host != "" || target.Scheme != "" {
		if slices.Contains(pages[from].loads, link) {
			return "", errors.New("is loaded from another host")
		}
		return "", nil
	}
	if path.IsAbs(target.Path) {
		return "", errors.New("must be relative, for sites below a path")
	}
	name := from
	if target.Path != "" {
		name = path.Join(path.Dir(from), target.Path)
	}
	if to := pages[name]; to != nil {
		if !to.ids[target.Fragment] {
			return "", errors.New("has no such element")
		}
		return name, nil
	}
	if path.Ext(name) == ".md" {
		return "", errors.New("leads to Markdown")
	}
	_, err = os.Stat(filepath.Join(folder, name))
	return name, err
}
