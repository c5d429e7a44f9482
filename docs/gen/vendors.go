package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/reference"
)

// vendorResults are the figures that make test-vendors writes, one file per catalog.
//
//go:embed vendors
var vendorResults embed.FS

// vendorResult is the part of a file that the page shows.
type vendorResult struct {
	Vendor, Module, Version, Date, Covers string
	NotCovered                            []string
	Cases, Skipped, Agree, Explained      int
	Refused, Different                    int
}

// catalogsPage returns the list of all catalogs, and how each compares with the vendor's own code.
func catalogsPage() (string, error) {
	results, err := readVendorResults()
	if err != nil {
		return "", fmt.Errorf("read the figures of make test-vendors: %w", err)
	}
	var page strings.Builder
	page.WriteString(reference.CatalogsPage(library.BuiltIn().Names()) + `
## Compared with the vendors' own code

` + "`make test-vendors`" + ` generates Services from a catalog and gives them to the catalog and to the vendor's own code. The
two agree on a Service if the catalog says that the controller refuses it and the code fails, or neither. *Explained* are
Services on which they differ on purpose, each with a reason and its source in ` + "`explanations.yaml`" + ` of the folder in
` + "`tools/vendors`" + `: mostly what the code sends to the cloud, and the cloud refuses. [How to run it](../../CONTRIBUTING.md#the-vendors-own-code).

| catalog | code | cases | compared | agree | of them refused | explained | unexplained |
|---|---|---|---|---|---|---|---|
`)
	for _, r := range results {
		compared := r.Cases - r.Skipped
		fmt.Fprintf(&page, "| [%s](catalogs/%s.md) | %s %s, %s | %d | %d | %d (%.1f %%) | %d | %d | %d |\n", r.Vendor, r.Vendor, r.Module, r.Version,
			r.Date, r.Cases, compared, r.Agree, 100*float64(r.Agree)/float64(max(compared, 1)), r.Refused, r.Explained, r.Different)
	}
	page.WriteString("\nThe other cases are Services that neither looks at, such as those of another class. Not covered is what is decided\n" +
		"only at run time in the cloud:\n\n")
	for _, r := range results {
		fmt.Fprintf(&page, "- %s: %s. Not covered: %s.\n", r.Vendor, r.Covers, strings.Join(r.NotCovered, "; "))
	}
	return page.String(), nil
}

func readVendorResults() ([]vendorResult, error) {
	const folder = "vendors"
	files, err := vendorResults.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var results []vendorResult
	for _, file := range files {
		raw, err := vendorResults.ReadFile(path.Join(folder, file.Name()))
		if err != nil {
			return nil, err
		}
		var r vendorResult
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		results = append(results, r)
	}
	return results, nil
}
