package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/catalog/document"
)

// Where things are in this repository.
const (
	catalogs  = "internal/rules/catalog/catalogs"
	judges    = "tools/vendors"
	explained = "explanations.yaml"
	declared  = "test/vendors/update/vendors.yaml"
)

// A catalog names the repositories in its controller. In their order, its version has a commit of each, as in
// v1.35.0-13-g6485324fbd97, or a tag.
var (
	repository = regexp.MustCompile(`github\.com/[\w.-]+/[\w.-]*\w`)
	commit     = regexp.MustCompile(`\bg?([0-9a-f]{8,40})\b`)
	tag        = regexp.MustCompile(`(v\d+\.\d+\.\d+[\w.-]*)`)
)

// catalog is a catalog with what vendors.yaml declares about the source of its vendor.
type catalog struct {
	document.Document
	vendor
	// siblings are other catalogs of the same repositories, such as that of Ingresses.
	siblings []document.Document
}

// vendor is an entry of vendors.yaml.
type vendor struct {
	// Module is the Go module that has the source, if a proxy has it. ModuleVersion pins it if no judge's go.mod does.
	Module        string `json:"module,omitempty"`
	ModuleVersion string `json:"moduleVersion,omitempty"`
	// Composed are constants to which the code adds a prefix.
	Composed []composed `json:"composed,omitempty"`
	// Known are keys that need nothing to be done.
	Known []known `json:"known,omitempty"`
}

// composed are the constants whose names and values match patterns, in which * stands for anything.
type composed struct {
	Names    string   `json:"names,omitempty"`
	Values   string   `json:"values,omitempty"`
	Prefixes []string `json:"prefixes"`
}

// known are keys, with the reason why the catalog lacks them, or why the source seems to.
type known struct {
	Keys []string `json:"keys"`
	Why  string   `json:"why"`
}

// listed reports whether vendors.yaml lists the key.
func (v vendor) listed(key string) bool {
	return slices.ContainsFunc(v.Known, func(k known) bool { return slices.Contains(k.Keys, key) })
}

// readCatalog reads a catalog from the folder of this repository, not from the programs, which may be older.
func readCatalog(root, name string) (*catalog, error) {
	files, err := filepath.Glob(filepath.Join(root, catalogs, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list the catalogs: %w", err)
	}
	all := map[string]document.Document{}
	for _, file := range files {
		d, err := readDocument(file)
		if err != nil {
			return nil, fmt.Errorf("read the catalog %s: %w", file, err)
		}
		all[d.Name] = d
	}
	c := &catalog{Document: all[name]}
	if c.Name == "" || c.Own {
		vendors := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(one string) bool { return all[one].Own })
		return nil, fmt.Errorf("set VENDOR to one of: %s", strings.Join(vendors, " "))
	}
	for other, d := range all {
		shared := func(repository string) bool { return slices.Contains(c.repositories(), repository) }
		if other != name && slices.ContainsFunc(repository.FindAllString(d.Controller, -1), shared) {
			c.siblings = append(c.siblings, d)
		}
	}
	raw, err := os.ReadFile(filepath.Join(root, declared))
	if err != nil {
		return nil, fmt.Errorf("read what is known about the vendors: %w", err)
	}
	var vendors map[string]vendor
	if err := yaml.UnmarshalStrict(raw, &vendors); err != nil {
		return nil, fmt.Errorf("decode %s: %w", declared, err)
	}
	c.vendor = vendors[name]
	for _, one := range c.Known {
		if one.Why == "" {
			return nil, fmt.Errorf("%s gives no reason for %s of %s", declared, strings.Join(one.Keys, ", "), name)
		}
	}
	return c, nil
}

func readDocument(file string) (d document.Document, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return d, err
	}
	head, body, _ := bytes.Cut(raw, []byte("\n---\n"))
	return d, errors.Join(yaml.UnmarshalStrict(head, &d.Head), yaml.UnmarshalStrict(body, &d.Body))
}

func (c *catalog) repositories() []string { return repository.FindAllString(c.Controller, -1) }

// locate returns the folder with the source of a repository, and its version: the module that tools/vendors or vendors.yaml
// pins or, if no proxy has it, the checkout in the folder of sources.
func (c *catalog) locate(ctx context.Context, root, repository, sources string) (folder, version string, err error) {
	if c.Module != "" {
		// Of a vendor with a judge, the judge's go.mod pins the version.
		in, query := filepath.Join(root, judges, c.Name), c.Module
		if c.ModuleVersion != "" {
			in, query = root, c.Module+"@"+c.ModuleVersion
		}
		if folder, version, err = module(ctx, in, query); err == nil {
			return folder, version, nil
		}
	}
	folder, found := checkout(repository, sources)
	if !found {
		return "", "", errors.Join(err, fmt.Errorf("%s requires a checkout of %s: clone it into a folder, and set SOURCES to that folder", c.Name, repository))
	}
	version, err = command(ctx, folder, "git", "describe", "--tags", "--always")
	if err != nil {
		version = "of unknown version" // the checkout may be a copy without its history
	}
	return folder, strings.TrimSpace(version), nil
}

// revision returns the commit or tag that the catalog describes of the repository at an index.
func (c *catalog) revision(index int) (revision string, known bool) {
	for _, pattern := range []*regexp.Regexp{commit, tag} {
		if all := pattern.FindAllStringSubmatch(c.Version, -1); index < len(all) {
			return all[index][1], true
		}
	}
	return "", false
}

// locateFormer writes the source of a repository at a revision into a folder, or returns that of the module.
func (c *catalog) locateFormer(ctx context.Context, revision, repository, sources, into string) (folder string, err error) {
	err = errors.New("there is no checkout of " + repository)
	if history, found := checkout(repository, sources); found {
		archive := filepath.Join(into, "archive.tar")
		// Only the files that are read: .go and .mod.
		if _, err = command(ctx, history, "git", "archive", "--output", archive, revision, "*.[gm]o*"); err == nil {
			_, err = command(ctx, into, "tar", "xf", archive)
			return into, err
		}
	}
	if c.Module != "" {
		folder, _, err = module(ctx, into, c.Module+"@"+revision)
	}
	return folder, err
}

// checkout returns the folder of a repository among the sources.
func checkout(repository, sources string) (folder string, found bool) {
	folder = filepath.Join(sources, path.Base(repository))
	info, err := os.Stat(folder)
	return folder, sources != "" && err == nil && info.IsDir()
}

// module downloads a module, unless it is in the module cache, and returns its folder and version.
func module(ctx context.Context, in, query string) (folder, version string, err error) {
	answer, err := command(ctx, in, "go", "mod", "download", "-json", query)
	var m struct{ Version, Dir, Error string }
	switch decoded := json.Unmarshal([]byte(answer), &m); {
	case m.Error != "":
		err = errors.New(m.Error)
	case err == nil:
		err = decoded
	}
	if err != nil {
		return "", "", fmt.Errorf("download module %s: %w", query, err)
	}
	return m.Dir, m.Version, nil
}

func command(ctx context.Context, folder string, words ...string) (string, error) {
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.Dir = folder
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(words[:2], " "), err)
	}
	return string(out), err
}
