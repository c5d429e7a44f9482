// Command gen writes the reference pages that are generated from the code into the folder given as its argument.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	mycloud "quaymaster.dev/cmd/mycloud/app"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/reference"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FOLDER")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func write(folder string) error {
	pages := map[string]string{
		"findings.md": reference.FindingsPage(),
		"catalogs.md": reference.CatalogsPage(library.BuiltIn().Names()),
	}
	for name, schema := range map[string]func() (string, error){"catalog": catalogSchema, "quayctl": settingsSchema} {
		text, err := schema()
		if err != nil {
			return err
		}
		pages[name+".schema.json"] = text
	}
	packages, err := packagesPage(context.Background())
	if err != nil {
		return err
	}
	pages["packages.md"] = packages
	for _, name := range []string{"serve", "edge"} {
		cmd, _, err := mycloud.NewCommand().Find([]string{name})
		if err != nil {
			return err
		}
		pages["mycloud-"+name+".md"] = flagsPage(cmd)
	}
	for _, name := range library.BuiltIn().Names() {
		c, _ := library.BuiltIn().Find(name)
		pages[filepath.FromSlash(reference.PageFile(c))] = reference.Page(c)
	}
	for name, page := range pages {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // docs are not secret
			return err
		}
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}
