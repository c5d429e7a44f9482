package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// licenses is the name of the file with the licenses of all modules that the programs of a product were built from.
const licenses = "THIRD-PARTY-LICENSES"

// embedded are the packages of npm whose files are in the programs of a product, with the folders of their licenses.
var embedded = map[string]map[string]string{
	"mycloud": {"npm:uplot": "internal/mycloud/server/page/assets/uplot"},
}

var license = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)([-._].*)?$`)

// writeLicenses writes the licenses and notices of modules, each text once, below the names of those that it is from.
// A module without a license is an error, because its code must not be shipped.
func (r release) writeLicenses(p product, platform string) error {
	modules, err := r.modules(p, platform)
	if err != nil {
		return err
	}
	from := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		texts, err := licensesIn(r.sources[name])
		if err != nil {
			return fmt.Errorf("module %s: %w", name, err)
		}
		for text := range texts {
			from[text] = append(from[text], name)
		}
	}
	for name, folder := range embedded[p.name] {
		texts, err := licensesIn(folder)
		if err != nil {
			return fmt.Errorf("package %s: %w", name, err)
		}
		for text := range texts {
			from[text] = append(from[text], name)
		}
	}
	sections := make([]string, 0, len(from))
	for text, names := range from {
		sections = append(sections, strings.Join(names, "\n")+"\n\n"+text+"\n")
	}
	slices.Sort(sections)
	content := strings.Join(sections, "\n"+strings.Repeat("-", 80)+"\n\n")
	return os.WriteFile(r.licensesFile(p.name, platform), []byte(content), 0o644)
}

func (r release) licensesFile(product, platform string) string {
	return filepath.Join(r.built, platform, product+"."+licenses)
}

// licensesIn returns the texts of all licenses in a folder: a module may contain code of others, with theirs.
func licensesIn(folder string) (map[string]bool, error) {
	if folder == "" {
		return nil, errors.New("its source is not in the module cache")
	}
	texts := map[string]bool{}
	err := filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == "testdata" || name == "vendor" {
				return fs.SkipDir
			}
			return nil
		}
		// Packages of Go may have such a name, too.
		if !license.MatchString(entry.Name()) || filepath.Ext(file) == ".go" {
			return nil
		}
		text, err := os.ReadFile(file)
		texts[strings.TrimSpace(string(text))] = true
		return err
	})
	if err == nil && len(texts) == 0 {
		err = errors.New("no license found")
	}
	return texts, err
}

// sources returns the folders of the modules' sources, and as "std" that of Go itself.
func sources() (map[string]string, error) {
	list, err := exec.Command("go", "list", "-m", "-json", "all").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	folders := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(list)); ; {
		var module struct {
			Path, Dir string
			Replace   *struct{ Path string }
		}
		if err := decoder.Decode(&module); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if module.Replace != nil {
			module.Path = module.Replace.Path
		}
		folders[module.Path] = module.Dir
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	folders["std"] = strings.TrimSpace(string(root))
	return folders, nil
}
