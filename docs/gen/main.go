// Command gen writes the reference pages that are generated from the code into the folder given as its argument.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	mycloud "quaymaster.dev/cmd/mycloud/app"
	quayctl "quaymaster.dev/cmd/quayctl/app"
	quaymaster "quaymaster.dev/cmd/quaymaster/app"
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
	pages, err := pages()
	if err != nil {
		return err
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

// pages returns the content of all generated files, by path in the folder.
func pages() (map[string]string, error) {
	pages := map[string]string{
		"findings.md": reference.FindingsPage(),
	}
	for name, schema := range map[string]func() (string, error){"catalog": catalogSchema, "quayctl": settingsSchema} {
		text, err := schema()
		if err != nil {
			return nil, err
		}
		pages[name+".schema.json"] = text
	}
	catalogs, err := catalogsPage()
	if err != nil {
		return nil, err
	}
	pages["catalogs.md"] = catalogs
	packages, err := packagesPage(context.Background())
	if err != nil {
		return nil, err
	}
	pages["packages.md"] = packages
	ownPages := map[string]string{}
	for _, name := range []string{"serve", "edge"} {
		ownPages[name] = "mycloud-" + name + ".md"
		if pages[ownPages[name]], err = commandPage(mycloud.NewCommand(), name); err != nil {
			return nil, err
		}
	}
	if pages["quaymaster-webhook.md"], err = commandPage(quaymaster.NewCommand(), "webhook"); err != nil {
		return nil, err
	}
	pages["mycloud.md"] = commandsPage(mycloud.NewCommand(), ownPages)
	pages["quayctl.md"] = commandsPage(quayctl.NewCommand("quayctl"), nil)
	if pages["policies.md"], err = policiesPage(); err != nil {
		return nil, err
	}
	for _, name := range library.BuiltIn().Names() {
		c, _ := library.BuiltIn().Find(name)
		pages[filepath.FromSlash(reference.PageFile(c))] = reference.Page(c)
	}
	return pages, nil
}

func commandPage(program *cobra.Command, name string) (string, error) {
	cmd, _, err := program.Find([]string{name})
	if err != nil {
		return "", err
	}
	return flagsPage(cmd), nil
}
