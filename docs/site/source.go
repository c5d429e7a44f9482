package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// contents is the page whose headings and lists are the navigation of the site.
const contents = "docs/README.md"

// single are the pages outside docs.
var single = []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "charts/quaymaster/README.md"}

// source is the documentation in the repository.
type source struct {
	repository fs.FS
	pages      map[string]*page // by path in the repository
	assets     []string         // the other files that pages link to
	groups     []group
}

// group is a group of entries in the navigation.
type group struct {
	name    string
	entries []entry
}

// entry is a page in the navigation.
type entry struct {
	name string
	page *page
}

// read reads all pages of a repository. Its error lists all dead links.
func read(repository fs.FS) (*source, error) {
	files := slices.Clone(single)
	err := fs.WalkDir(repository, "docs", func(file string, _ fs.DirEntry, err error) error {
		if path.Ext(file) == ".md" {
			files = append(files, file)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list pages: %w", err)
	}
	s := &source{repository: repository, pages: map[string]*page{}}
	for _, file := range files {
		raw, err := fs.ReadFile(repository, file)
		if err != nil {
			return nil, fmt.Errorf("read page: %w", err)
		}
		s.pages[file] = parse(file, raw)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	s.groups = s.navigation()
	return s, nil
}

// check reports links that lead nowhere, and collects the files that links refer to.
func (s *source) check() error {
	var problems []error
	for _, p := range s.pages {
		for _, link := range p.links() {
			file, err := s.follow(p, link)
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: link %q: %w", p.file, link, err))
			} else if file != "" && s.pages[file] == nil {
				s.assets = append(s.assets, file)
			}
		}
	}
	slices.Sort(s.assets)
	s.assets = slices.Compact(s.assets)
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// follow returns the path in the repository to which a link of a page leads, or "" for a link to another host.
func (s *source) follow(from *page, link string) (string, error) {
	target, err := url.Parse(link)
	if err != nil {
		return "", err
	}
	if target.Scheme != "" || target.Host != "" {
		if target.Scheme != "https" && target.Scheme != "mailto" {
			return "", errors.New("must be relative or use https")
		}
		return "", nil
	}
	file := from.file
	if target.Path != "" {
		file = path.Join(path.Dir(from.file), target.Path)
	}
	if to := s.pages[file]; to != nil {
		if target.Fragment != "" && !to.anchors()[target.Fragment] {
			return "", fmt.Errorf("%s has no heading with this anchor", file)
		}
		return file, nil
	}
	switch info, err := fs.Stat(s.repository, file); {
	case err != nil:
		return "", fmt.Errorf("%s does not exist", file)
	case info.IsDir():
		return "", errors.New("must lead to a file, because a site cannot show a folder")
	}
	return file, nil
}

// navigation returns the lists of the contents: each heading is a group, and the first link of each item is an entry.
func (s *source) navigation() []group {
	var groups []group
	p := s.pages[contents]
	for node := p.document.FirstChild(); node != nil; node = node.NextSibling() {
		switch node := node.(type) {
		case *ast.Heading:
			if node.Level == 2 {
				groups = append(groups, group{name: p.plain(node)})
			}
		case *ast.List:
			if len(groups) == 0 {
				continue
			}
			last := &groups[len(groups)-1]
			for item := node.FirstChild(); item != nil; item = item.NextSibling() {
				if found := s.firstLink(p, item); found != nil {
					last.entries = append(last.entries, *found)
				}
			}
		}
	}
	return groups
}

// firstLink returns the first link to a page in a node of the contents, or nil.
func (s *source) firstLink(p *page, root ast.Node) *entry {
	for node := range nodes(root) {
		link, ok := node.(*ast.Link)
		if !ok {
			continue
		}
		file, _, _ := strings.Cut(string(link.Destination), "#")
		if to := s.pages[path.Join(path.Dir(p.file), file)]; to != nil {
			return &entry{p.plain(link), to}
		}
	}
	return nil
}
