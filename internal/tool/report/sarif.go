package report

import (
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"quaymaster.dev/internal/rules/finding"
)

const (
	sarifVersion = "2.1.0"
	sarifSchema  = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	home         = "https://quaymaster.dev"
)

// Rule documents the ID of a finding.
type Rule struct {
	finding.Doc

	// Page is the link to its section in the docs, relative to the root of the repository.
	Page string
}

// Tool describes the program.
type Tool struct {
	Version string
	// Rule returns the documentation of an ID, if it is known. Only the IDs that occur are listed, because there are
	// many.
	Rule func(id string) (Rule, bool)
	// Root is the directory to which file names are relative.
	Root string
}

// SARIF writes the Static Analysis Results Interchange Format, which code hosts show next to the code.
func SARIF(w io.Writer, results []Result, tool Tool) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "quayctl", Version: tool.Version, InformationURI: home, Rules: []sarifRule{}}
	driver := &run.Tool.Driver
	indexes := map[string]int{}
	for _, r := range results {
		for _, f := range r.Findings {
			result := sarifResult{RuleID: f.ID, Level: f.Severity, Message: sarifText{f.text()},
				Locations: []sarifLocation{locate(r, f, tool.Root)}}
			index, listed := indexes[f.ID]
			if rule, known := tool.Rule(f.ID); known && !listed {
				index, listed = len(driver.Rules), true
				indexes[f.ID] = index
				driver.Rules = append(driver.Rules, rule.sarif())
			}
			if listed {
				result.RuleIndex = &index
			}
			run.Results = append(run.Results, result)
		}
	}
	return Encode(w, sarifLog{Schema: sarifSchema, Version: sarifVersion, Runs: []sarifRun{run}})
}

// helpURI returns the address of the rule's page on the site of the documentation, where pages end in .html.
func (r Rule) helpURI() string { return home + "/" + strings.Replace(r.Page, ".md", ".html", 1) }

func (r Rule) sarif() sarifRule {
	return sarifRule{
		ID: r.ID, ShortDescription: sarifText{r.Help}, Help: sarifText{r.Help}, HelpURI: r.helpURI(),
		DefaultConfiguration: sarifConfiguration{r.Severity},
	}
}

func locate(r Result, f Finding, root string) sarifLocation {
	name := strings.Trim(r.Object.Namespace+"/"+r.Object.Kind+"/"+r.Object.Name, "/")
	location := sarifLocation{Logical: []sarifLogical{{FullyQualifiedName: name, Kind: "resource"}}}
	if r.File != "" {
		location.Physical = &sarifPhysical{Artifact: artifact(r.File, root),
			Region: sarifRegion{StartLine: f.Line, StartColumn: f.Column}}
	}
	return location
}

// artifact identifies a file relative to the root of the repository, as code hosts require.
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

// The parts of SARIF's schema that are used here, by its names. Severities have the same names as SARIF's levels.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool struct {
			Driver sarifDriver `json:"driver"`
		} `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version,omitempty"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID                   string             `json:"id"`
		ShortDescription     sarifText          `json:"shortDescription"`
		Help                 sarifText          `json:"help"`
		HelpURI              string             `json:"helpUri"`
		DefaultConfiguration sarifConfiguration `json:"defaultConfiguration"`
	}
	sarifConfiguration struct {
		Level finding.Severity `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string           `json:"ruleId"`
		RuleIndex *int             `json:"ruleIndex,omitempty"`
		Level     finding.Severity `json:"level"`
		Message   sarifText        `json:"message"`
		Locations []sarifLocation  `json:"locations"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI    string `json:"uri"`
		BaseID string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
		Kind               string `json:"kind"`
	}
)
