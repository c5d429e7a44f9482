package flags

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"quaymaster.dev/internal/selection"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
	"quaymaster.dev/internal/tool/settings"
	"quaymaster.dev/internal/tool/suppress"
)

// Accept are the flags for findings that users have accepted.
type Accept struct {
	Config, Baseline string
	Write            bool
	// Suppressed means that SARIF contains findings that do not count.
	Suppressed bool

	// File is the config file, known the baseline; nil if there is none.
	File  *settings.File
	known *suppress.Baseline
}

// AddFlags adds --config, --baseline and --write-baseline.
func (a *Accept) AddFlags(fs *pflag.FlagSet, config string) {
	usage := "`file` with catalogs, severities and findings to ignore"
	if config != "" {
		usage += ", which need not exist by default; empty for none"
	}
	fs.StringVar(&a.Config, "config", config, usage)
	fs.StringVar(&a.Baseline, "baseline", "", "`file` with known findings, which do not count")
	fs.BoolVar(&a.Suppressed, "sarif-suppressed", false,
		"include findings that do not count in SARIF, with suppressions; code scanning of GitHub shows them as open")
	fs.BoolVar(&a.Write, "write-baseline", false, "write all findings to the file of --baseline, which keeps those of files that were not read")
}

// Load reads the files, and returns every problem of them and of the flags in e. Flags take precedence over the config file,
// except for templates, which add up.
func (a *Accept) Load(fs *pflag.FlagSet, e *Engine) []string {
	problems := a.read(fs.Changed("config"))
	if len(problems) > 0 {
		return texts(problems)
	}
	if !fs.Changed("catalog-file") {
		e.Files = a.File.CatalogFiles
	}
	if problems := e.Load(); len(problems) > 0 {
		return problems
	}
	problems = a.File.Problems(e.Library)
	if !fs.Changed("catalog") && len(a.File.Catalogs) > 0 {
		_ = e.choose(a.File.Catalogs) // whose problems are those of the file
	}
	if !fs.Changed("unknown-keys") && len(a.File.UnknownKeys) > 0 {
		e.Unknown, _ = selection.UnknownKeys(a.File.UnknownKeys, nil) // whose problems are those of the file
	}
	e.Templates = append(e.Templates, a.File.Templates...)
	if a.Write && a.Baseline == "" {
		return append(texts(problems), "--write-baseline requires --baseline=FILE")
	}
	if a.Baseline != "" && !a.Write {
		var more []manifest.Problem
		a.known, more = suppress.ReadBaseline(a.Baseline)
		problems = append(problems, more...)
	}
	return texts(problems)
}

// read reads the config file, which may be missing unless the flag names it.
func (a *Accept) read(named bool) []manifest.Problem {
	a.File = &settings.File{}
	if a.Config == "" {
		return nil
	}
	if _, err := os.Stat(a.Config); errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	f, problems := settings.Read(a.Config)
	if f != nil {
		a.File = f
	}
	return problems
}

func texts(problems []manifest.Problem) []string {
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return all
}

// Apply moves the findings that do not count, and writes the baseline if that is wanted. files are those that were read,
// and scope is that of the run.
func (a *Accept) Apply(results []report.Result, files []manifest.File, scope suppress.Scope, stderr io.Writer) error {
	suppress.Apply(results, files, suppress.Options{Severities: a.File.Severities, Rules: a.File.Ignores, Folder: a.File.Folder()})
	if a.Write {
		if err := a.writeBaseline(results, scope); err != nil {
			return err
		}
	}
	if a.known == nil {
		return nil
	}
	a.known.Apply(results)
	if gone := a.known.Gone(scope); gone > 0 {
		fmt.Fprintf(stderr, "%s: known findings that no longer occur: %d; remove them with --write-baseline\n", a.Baseline, gone)
	}
	return nil
}

// writeBaseline writes the baseline, and uses it.
func (a *Accept) writeBaseline(results []report.Result, scope suppress.Scope) error {
	if err := suppress.WriteBaseline(a.Baseline, results, scope); err != nil {
		return err
	}
	var problems []manifest.Problem
	if a.known, problems = suppress.ReadBaseline(a.Baseline); len(problems) > 0 {
		return fmt.Errorf("%s", problems[0])
	}
	return nil
}

// Own reports whether a file is the config file or the baseline.
func (a *Accept) Own(file string) bool {
	is := func(name string) bool { return name != "" && filepath.Clean(file) == filepath.Clean(name) }
	return is(a.Config) || is(a.Baseline)
}
