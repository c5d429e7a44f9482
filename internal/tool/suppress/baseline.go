package suppress

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
)

// Baseline holds the findings that were there when it was written.
type Baseline struct {
	name   string
	folder string
	// left are those that have not been found yet, with their number.
	left map[Known]int
}

// Known identifies a finding, wherever it moves in its file.
type Known struct {
	// File is relative to the folder of the baseline; empty for objects of a cluster.
	File string `json:"file,omitempty"`
	// Object is the kind, namespace and name.
	Object string `json:"object"`
	ID     string `json:"id"`
	Path   string `json:"path"`
	Value  string `json:"value,omitempty"`
}

// entry is a finding in the file of a baseline.
type entry struct {
	Known

	// Count is how often it occurs.
	Count int64 `json:"count,omitempty"`
}

// contents is the content of the file of a baseline.
type contents struct {
	Findings []entry `json:"findings"`
}

// ReadBaseline reads a file that WriteBaseline has written.
func ReadBaseline(name string) (*Baseline, []manifest.Problem) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, []manifest.Problem{{File: name, Message: err.Error() + "; write it with --write-baseline"}}
	}
	f := manifest.Parse(name, data, func(string, string) bool { return true })
	if len(f.Problems) > 0 {
		return nil, f.Problems
	}
	if len(f.Objects) != 1 {
		return nil, []manifest.Problem{{File: name, Message: "must have one document with findings; write it again with --write-baseline"}}
	}
	decoded, mistakes := manifest.Decode[contents](f.Objects[0])
	var problems []manifest.Problem
	for _, m := range mistakes {
		problems = append(problems, manifest.Problem{File: name, Line: m.Place.Line, Message: fmt.Sprintf("%s: %s; %s", m.Path, m.Message, m.Remedy)})
	}
	b := &Baseline{name: name, folder: filepath.Dir(name), left: map[Known]int{}}
	for _, e := range decoded.Findings {
		b.left[e.Known] += int(max(e.Count, 1))
	}
	return b, problems
}

// Apply moves the findings of the baseline from Findings to Suppressed.
func (b *Baseline) Apply(results []report.Result) {
	for i := range results {
		r := &results[i]
		move(r, func(f report.Finding) *report.Suppression {
			k := known(b.folder, *r, f)
			if b.left[k] == 0 {
				return nil
			}
			b.left[k]--
			return &report.Suppression{Kind: report.External, Justification: "in the baseline " + filepath.ToSlash(b.name)}
		})
		report.Sort(r.Suppressed)
	}
}

// Gone returns the number of findings of the baseline in these files that Apply has not found. The file of objects in a
// cluster is the empty string.
func (b *Baseline) Gone(files []string) int {
	read := map[string]bool{}
	for _, file := range files {
		read[Relative(b.folder, file)] = true
	}
	gone := 0
	for k, n := range b.left {
		if read[k.File] {
			gone += n
		}
	}
	return gone
}

// WriteBaseline writes the findings that count to a file in the given folder.
func WriteBaseline(w io.Writer, folder string, results []report.Result) error {
	counts := map[Known]int64{}
	for _, r := range results {
		for _, f := range r.Findings {
			counts[known(folder, r, f)]++
		}
	}
	c := contents{Findings: []entry{}}
	for k, n := range counts {
		if n == 1 {
			n = 0 // which is left out
		}
		c.Findings = append(c.Findings, entry{Known: k, Count: n})
	}
	slices.SortFunc(c.Findings, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.ID, b.ID), cmp.Compare(a.Value, b.Value))
	})
	return report.Encode(w, c)
}

func known(folder string, r report.Result, f report.Finding) Known {
	return Known{File: Relative(folder, r.File), Object: r.Object.String(), ID: f.ID, Path: f.Path, Value: f.Value}
}
