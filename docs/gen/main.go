// Command gen generates the reference pages from the code and writes them to the directory given as its argument.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/policy"
	"quaymaster.dev/internal/reference"
	policywebhook "quaymaster.dev/webhook/policy"
	"quaymaster.dev/webhook/service"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	chapters := append(reference.Chapters(),
		reference.Chapter{Title: "Findings of the Service webhooks", Rules: service.Docs()},
		reference.Chapter{Title: "Findings of the policy webhooks", Rules: policywebhook.Docs()},
	)
	pages := map[string]string{
		"annotations.md": reference.AnnotationsPage(),
		"findings.md":    reference.FindingsPage(chapters),
		"catalogs.md":    reference.CatalogsPage(policy.CatalogNames()),
	}
	for _, name := range catalog.Names() {
		c, _ := catalog.Find(name)
		pages[filepath.Join("catalogs", name+".md")] = reference.Page(c)
	}
	for name, page := range pages {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // the docs are world-readable
			return err
		}
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}
