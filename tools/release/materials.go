package main

import (
	"cmp"
	"debug/buildinfo"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

// modules returns the versions of the modules that the programs of a product were built from, as the linker recorded them,
// and as "std" that of Go.
func (r release) modules(p product, platform string) (map[string]string, error) {
	modules := map[string]string{}
	for _, program := range p.programs {
		info, err := buildinfo.ReadFile(filepath.Join(r.built, platform, program))
		if err != nil {
			return nil, err
		}
		modules["std"] = strings.TrimPrefix(info.GoVersion, "go")
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			modules[module.Path] = module.Version
		}
	}
	return modules, nil
}

// writeMaterials lists the modules that the programs of an archive were built from.
func (r release) writeMaterials(p product, platform string) error {
	modules, err := r.modules(p, platform)
	if err != nil {
		return err
	}
	components := make([]cyclonedx.Component, 0, len(modules))
	for _, path := range slices.SortedFunc(maps.Keys(modules), cmp.Compare[string]) {
		components = append(components, component(cyclonedx.ComponentTypeLibrary, path, modules[path]))
	}
	subject := component(cyclonedx.ComponentTypeApplication, "quaymaster.dev/cmd/"+p.name, "v"+r.version)

	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &subject}
	bom.Components = &components
	file, err := os.Create(filepath.Join(r.out, r.archiveName(p, platform)+".cdx.json"))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return file.Close()
}

func component(kind cyclonedx.ComponentType, path, version string) cyclonedx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cyclonedx.Component{Type: kind, BOMRef: url, Name: path, Version: version, PackageURL: url}
}
