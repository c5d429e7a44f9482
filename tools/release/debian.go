package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
)

// writePackages writes a package for each description in packaging, for each architecture that it uses.
func (r release) writePackages() error {
	descriptions, err := filepath.Glob("packaging/*.yaml")
	if err != nil {
		return err
	}
	for _, description := range descriptions {
		written := map[string]bool{}
		for _, platform := range linux {
			info, err := r.describe(description, platform)
			if err != nil {
				return fmt.Errorf("%s: %w", description, err)
			}
			name := deb.Default.ConventionalFileName(info)
			if written[name] { // for all architectures
				continue
			}
			written[name] = true
			if err := writePackage(info, filepath.Join(r.out, name)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// describe returns what a description says for a platform.
func (r release) describe(description, platform string) (*nfpm.Info, error) {
	_, architecture, _ := strings.Cut(platform, "/")
	variables := map[string]string{
		"VERSION": r.version, "ARCH": architecture,
		"BUILT": filepath.Join(r.built, platform), "MANUAL": filepath.Join(r.built, "manual"),
	}
	config, err := nfpm.ParseFileWithEnvMapping(description, func(name string) string { return variables[name] })
	if err != nil {
		return nil, err
	}
	info, err := config.Get("deb")
	if err != nil {
		return nil, err
	}
	info.MTime = r.time
	for _, content := range info.Contents {
		if content.FileInfo != nil {
			content.FileInfo.MTime = r.time
		}
	}
	return nfpm.WithDefaults(info), nil
}

func writePackage(info *nfpm.Info, name string) error {
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return err
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := deb.Default.Package(info, file); err != nil {
		return err
	}
	return file.Close()
}
