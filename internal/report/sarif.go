package report

import (
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"quaymaster.dev/internal/rules"
)

const (
	sarifVersion = "2.1.0"
	sarifSchema  = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	home         = "https://quaymaster.dev"
	// findingsPage has a section for each id.
	findingsPage = home + "/docs/reference/findings.md#"
)

// Tool is what SARIF says of the program.
type Tool struct {
	Version string
	// Rules document the ids of findings.
	Rules []rules.Rule
	// Root is the folder that the names of files are relative to.
	Root string
}

// SARIF writes the static analysis results interchange format, which code hosts show beside the code.
func SARIF(w io.Writer, results []Result, tool Tool) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "quayctl", Version: tool.Version, InformationURI: home, Rules: []sarifRule{}}
	indexes := map[string]int{}
	for i, rule := range tool.Rules {
		indexes[rule.ID] = i
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{
			ID: rule.ID, ShortDescription: sarifText{rule.Help}, Help: sarifText{rule.Help}, HelpURI: findingsPage + rule.ID,
			DefaultConfiguration: sarifConfiguration{rule.Severity},
		})
	}
	for _, r := range results {
		for _, f := range r.Findings {
			result := sarifResult{RuleID: f.ID, Level: f.Severity, Message: sarifText{f.text()}, Locations: []sarifLocation{locate(r, f, tool.Root)}}
			if index, ok := indexes[f.ID]; ok {
				result.RuleIndex = &index
			}
			run.Results = append(run.Results, result)
		}
	}
	return encode(w, sarifLog{Schema: sarifSchema, Version: sarifVersion, Runs: []sarifRun{run}})
}

func locate(r Result, f Finding, root string) sarifLocation {
	name := strings.Trim(r.Object.Namespace+"/"+r.Object.Kind+"/"+r.Object.Name, "/")
	location := sarifLocation{Logical: []sarifLogical{{FullyQualifiedName: name, Kind: "resource"}}}
	if r.File != "" {
		location.Physical = &sarifPhysical{Artifact: artifact(r.File, root), Region: sarifRegion{StartLine: f.Line, StartColumn: f.Column}}
	}
	return location
}

// artifact names a file as code hosts know it, from the root of the repository.
func artifact(file, root string) sarifArtifact {
	if filepath.IsAbs(file) {
		relative, err := filepath.Rel(root, file)
		if err != nil || !filepath.IsLocal(relative) {
			return sarifArtifact{URI: (&url.URL{Scheme: "file", Path: filepath.ToSlash(file)}).String()}
		}
		file = relative
	}
	return sarifArtifact{URI: (&url.URL{Path: filepath.ToSlash(file)}).String(), BaseID: "%SRCROOT%"}
}
