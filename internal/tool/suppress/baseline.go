package suppress

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	// Check is the check that failed, where several have an id.
	Check string `json:"check,omitempty"`
}

// Scope reports whether a run finds what is known, if it still occurs.
type Scope func(Known) bool

// OfFiles returns the scope of a run that reads files, with a baseline in a folder.
func OfFiles(folder string, files []string) Scope {
	read := map[string]bool{}
	for _, file := range files {
		read[relative(folder, file)] = true
	}
	return func(k Known) bool { return read[k.File] }
}

// OfCluster returns the scope of a run that reads all objects of a cluster, or those of a namespace.
func OfCluster(namespace string) Scope {
	return func(k Known) bool {
		return k.File == "" && (namespace == "" || strings.Contains(k.Object, " "+namespace+"/"))
	}
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
		return nil, []manifest.Problem{{File: name, Message: "must have one document with findings; remove it, and write it again with --write-baseline"}}
	}
	decoded, mistakes := manifest.Decode[contents](f.Objects[0])
	b := &Baseline{name: name, folder: filepath.Dir(name), left: map[Known]int{}}
	for _, e := range decoded.Findings {
		b.left[e.Known] += int(max(e.Count, 1))
	}
	return b, manifest.Problems(name, mistakes)
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

// Gone returns the number of findings of the baseline that Apply has not found, although they are in the scope of the run.
func (b *Baseline) Gone(scope Scope) int {
	gone := 0
	for k, n := range b.left {
		if scope(k) {
			gone += n
		}
	}
	return gone
}

// WriteBaseline writes the findings that count to a file. What the file has outside the scope of the run stays.
func WriteBaseline(name string, results []report.Result, scope Scope) error {
	counts := map[Known]int64{}
	for _, r := range results {
		for _, f := range r.Findings {
			counts[known(filepath.Dir(name), r, f)]++
		}
	}
	if _, err := os.Stat(name); err == nil {
		was, problems := ReadBaseline(name)
		if len(problems) > 0 {
			return errors.New(problems[0].String())
		}
		for k, n := range was.left {
			if _, found := counts[k]; !found && !scope(k) {
				counts[k] = int64(n)
			}
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
			cmp.Compare(a.ID, b.ID), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Check, b.Check))
	})
	return replace(name, c)
}

// replace writes a file as a whole or not at all.
func replace(name string, c contents) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".baseline-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails after the rename
	const mode = 0o644                         // it is committed
	if err := errors.Join(report.Encode(f, c), f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func known(folder string, r report.Result, f report.Finding) Known {
	return Known{File: relative(folder, r.File), Object: r.Object.String(), ID: f.ID, Path: f.Path, Value: f.Value, Check: f.Check}
}
