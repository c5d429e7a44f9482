// Package corpus holds manifests of Services with the verdict that every part of the project must reach on them: the
// engine, the webhooks on a real API server, and whatever checks manifests elsewhere. Adding a case is adding a file.
//
// valid/ and invalid/ hold one Service a file; update/ the old Service and the new one. Comment lines at the top tell the
// verdict, one a line, in any order:
//
//	# cause: <finding id> <field path>     an error
//	# warning: <finding id> <field path>   a warning
package corpus

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

//go:embed valid invalid update
var files embed.FS

// Problem is an expected finding.
type Problem struct{ ID, Field string }

// Case is one file of the corpus.
type Case struct {
	// Name is the path without extension, such as invalid/maxqps-not-a-number.
	Name string
	// Old is nil unless the case is an update.
	Old, New *corev1.Service
	// Causes refuse the Service, Warnings do not.
	Causes, Warnings []Problem
}

// Load reads the whole corpus.
func Load() ([]Case, error) {
	var cases []Case
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := files.ReadFile(name)
		if err != nil {
			return err
		}
		c, err := parse(strings.TrimSuffix(name, path.Ext(name)), string(raw))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		cases = append(cases, c)
		return nil
	})
	return cases, err
}

func parse(name, text string) (Case, error) {
	c := Case{Name: name}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) != 4 || words[0] != "#" {
			continue
		}
		switch problem := (Problem{ID: words[2], Field: words[3]}); words[1] {
		case "cause:":
			c.Causes = append(c.Causes, problem)
		case "warning:":
			c.Warnings = append(c.Warnings, problem)
		}
	}
	var services []*corev1.Service
	for document := range strings.SplitSeq(text, "\n---\n") {
		svc := &corev1.Service{}
		if err := yaml.UnmarshalStrict([]byte(document), svc); err != nil {
			return c, err
		}
		services = append(services, svc)
	}
	kind := path.Dir(name)
	if kind == "update" && len(services) == 2 {
		c.Old, c.New = services[0], services[1]
		return c, nil
	}
	if kind == "update" || len(services) != 1 {
		return c, fmt.Errorf("%d documents", len(services))
	}
	if (kind == "invalid") != (len(c.Causes) > 0) {
		return c, fmt.Errorf("%d causes", len(c.Causes))
	}
	c.New = services[0]
	return c, nil
}
