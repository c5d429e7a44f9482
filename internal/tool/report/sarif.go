package report

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"quaymaster.dev/internal/rules/finding"
)

const (
	sarifVersion = "2.1.0"
	sarifSchema  = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	home         = "https://quaymaster.dev"

	// maxResults is how many findings are listed: code hosts refuse files with more than 25,000, or with more than 10 MB.
	maxResults = 20_000
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
	// Suppressed means that SARIF lists suppressed findings, too. Code scanning of GitHub shows them as open alerts.
	Suppressed bool
}

// SARIF writes the Static Analysis Results Interchange Format, which code hosts show next to the code. Of very many
// findings, it lists the errors first, and reports how many are missing.
func SARIF(w io.Writer, results []Result, tool Tool) error {
	run := sarifRun{ColumnKind: "unicodeCodePoints", Results: []sarifResult{}}
	run.Tool.Driver = sarifDriver{Name: "quayctl", Version: tool.Version, InformationURI: home, Rules: []sarifRule{}}
	driver := &run.Tool.Driver
	indexes, objects := map[string]int{}, map[Object]int{}
	// If suppressions are stated for one result, they must be for all.
	suppressed := tool.Suppressed && slices.ContainsFunc(results, func(r Result) bool { return len(r.Suppressed) > 0 })
	room, missing := rooms(results, suppressed)
	for _, r := range results {
		for _, f := range r.listed(suppressed) {
			if room[f.class()] == 0 {
				continue
			}
			room[f.class()]--
			object, named := objects[r.Object]
			if !named {
				object = len(run.Logical)
				objects[r.Object] = object
				run.Logical = append(run.Logical, logical(r.Object))
			}
			result := sarifResult{RuleID: f.ID, Level: f.Severity, Message: sarifText{f.text()},
				Locations: []sarifLocation{{Logical: []sarifReference{{object}}, Physical: physical(r, f, tool.Root)}}}
			if suppressed {
				result.Suppressions = f.Suppression.sarif()
			}
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
	if missing > 0 {
		text := fmt.Sprintf("%d more findings are not listed; lint fewer files at once, or see all of them with -o json", missing)
		run.Invocations = []sarifInvocation{{Successful: true, Notifications: []sarifNotification{{Level: finding.Warning, Message: sarifText{text}}}}}
	}
	// Indentation would be almost half of the file.
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(sarifLog{Schema: sarifSchema, Version: sarifVersion, Runs: []sarifRun{run}})
}

// listed returns the findings to list.
func (r Result) listed(suppressed bool) []Finding {
	if suppressed {
		return slices.Concat(r.Findings, r.Suppressed)
	}
	return r.Findings
}

// rooms returns how many findings of each class are listed, and how many are not.
func rooms(results []Result, suppressed bool) (room map[finding.Severity]int, missing int) {
	count := map[finding.Severity]int{}
	for _, r := range results {
		for _, f := range r.listed(suppressed) {
			count[f.class()]++
		}
	}
	room = map[finding.Severity]int{}
	left := maxResults
	for _, class := range []finding.Severity{finding.Error, finding.Warning, finding.Note, suppressedClass} {
		room[class] = min(count[class], left)
		left -= room[class]
		missing += count[class] - room[class]
	}
	return room, missing
}

// suppressedClass is the class of findings that do not count.
const suppressedClass finding.Severity = "suppressed"

// class decides which findings are listed first.
func (f Finding) class() finding.Severity {
	if f.Suppression != nil {
		return suppressedClass
	}
	return f.Severity
}

// helpURI returns the address of the rule's page on the site of the documentation, where pages end in .html.
func (r Rule) helpURI() string { return home + "/" + strings.Replace(r.Page, ".md", ".html", 1) }

func (r Rule) sarif() sarifRule {
	return sarifRule{
		ID: r.ID, ShortDescription: sarifText{r.Help}, Help: sarifText{r.Help}, HelpURI: r.helpURI(),
		DefaultConfiguration: sarifConfiguration{r.Severity},
	}
}

func (s *Suppression) sarif() []sarifSuppression {
	if s == nil {
		return []sarifSuppression{}
	}
	return []sarifSuppression{{Kind: s.Kind, Status: "accepted", Justification: s.Justification}}
}

func logical(o Object) sarifLogical {
	return sarifLogical{FullyQualifiedName: strings.Trim(o.Namespace+"/"+o.Kind+"/"+o.Name, "/"), Kind: "resource"}
}

// physical returns the position of a finding; nil for an object of a cluster.
func physical(r Result, f Finding, root string) *sarifPhysical {
	if r.File == "" {
		return nil
	}
	return &sarifPhysical{Artifact: artifact(r.File, root), Region: sarifRegion{StartLine: f.Line, StartColumn: f.Column}}
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
		Invocations []sarifInvocation `json:"invocations,omitempty"`
		ColumnKind  string            `json:"columnKind"`
		// Logical are the objects, to which results refer by their index.
		Logical []sarifLogical `json:"logicalLocations,omitempty"`
		Results []sarifResult  `json:"results"`
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
		// Suppressions is empty for a result that counts among others that do not.
		Suppressions []sarifSuppression `json:"suppressions,omitzero"`
	}
	sarifSuppression struct {
		Kind          string `json:"kind"`
		Status        string `json:"status"`
		Justification string `json:"justification"`
	}
	sarifLocation struct {
		Physical *sarifPhysical   `json:"physicalLocation,omitempty"`
		Logical  []sarifReference `json:"logicalLocations"`
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
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Notifications []sarifNotification `json:"toolExecutionNotifications"`
	}
	sarifNotification struct {
		Level   finding.Severity `json:"level"`
		Message sarifText        `json:"message"`
	}
	sarifReference struct {
		Index int `json:"index"`
	}
	sarifLogical struct {
		FullyQualifiedName string `json:"fullyQualifiedName"`
		Kind               string `json:"kind"`
	}
)
