package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// writePlugin writes the manifest by which krew installs quayctl as kubectl quay. JSON is YAML, too.
func (r release) writePlugin() error {
	quayctl := products[len(products)-1]
	platforms := make([]map[string]any, 0, len(quayctl.platforms))
	for _, platform := range quayctl.platforms {
		archive := r.archiveName(quayctl, platform) + ".tar.gz"
		sum, err := checksum(filepath.Join(r.out, archive))
		if err != nil {
			return err
		}
		system, architecture, _ := strings.Cut(platform, "/")
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]string{"os": system, "arch": architecture}},
			"uri":      r.url + "/" + archive,
			"sha256":   sum,
			"bin":      "quayctl",
		})
	}
	manifest, err := json.MarshalIndent(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]string{"name": "quay"},
		"spec": map[string]any{
			"version":          "v" + r.version,
			"homepage":         "https://quaymaster.dev",
			"shortDescription": "Validate manifests of load balancers and diagnose Quaymaster",
			"description":      "Validates manifests and clusters, and diagnoses installations of Quaymaster.",
			"platforms":        platforms,
		},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "quay.yaml"), append(manifest, '\n'), 0o644)
}
