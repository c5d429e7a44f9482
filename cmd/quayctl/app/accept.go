package app

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

// acceptFlags are the flags for findings that users have accepted.
type acceptFlags struct {
	config, baseline string
	write            bool
	// sarif means that SARIF contains findings that do not count.
	sarif bool

	// file is the config file, known the baseline; nil if there is none.
	file  *settings.File
	known *suppress.Baseline
}

// addFlags adds --config, --baseline and --write-baseline.
func (l *acceptFlags) addFlags(fs *pflag.FlagSet, config string) {
	usage := "`file` with catalogs, severities and findings to ignore"
	if config != "" {
		usage += ", which need not exist by default; empty for none"
	}
	fs.StringVar(&l.config, "config", config, usage)
	fs.StringVar(&l.baseline, "baseline", "", "`file` with known findings, which do not count")
	fs.BoolVar(&l.sarif, "sarif-suppressed", false,
		"include findings that do not count in SARIF, with suppressions; code scanning of GitHub shows them as open")
	fs.BoolVar(&l.write, "write-baseline", false, "write all findings to the file of --baseline, which keeps those of files that were not read")
}

// load reads the files, and returns every problem of them and of the flags in e. Flags take precedence over the config file.
func (l *acceptFlags) load(fs *pflag.FlagSet, e *engineFlags) []string {
	problems := l.read(fs.Changed("config"))
	if len(problems) > 0 {
		return texts(problems)
	}
	if !fs.Changed("catalog-file") {
		e.files = l.file.CatalogFiles
	}
	if problems := e.load(); len(problems) > 0 {
		return problems
	}
	problems = l.file.Problems(e.library)
	if !fs.Changed("catalog") && len(l.file.Catalogs) > 0 {
		_ = e.choose(l.file.Catalogs) // whose problems are those of the file
	}
	if !fs.Changed("unknown-keys") && len(l.file.UnknownKeys) > 0 {
		e.unknown, _ = selection.UnknownKeys(l.file.UnknownKeys, nil) // whose problems are those of the file
	}
	if l.write && l.baseline == "" {
		return append(texts(problems), "--write-baseline requires --baseline=FILE")
	}
	if l.baseline != "" && !l.write {
		var more []manifest.Problem
		l.known, more = suppress.ReadBaseline(l.baseline)
		problems = append(problems, more...)
	}
	return texts(problems)
}

// read reads the config file, which may be missing unless the flag names it.
func (l *acceptFlags) read(named bool) []manifest.Problem {
	l.file = &settings.File{}
	if l.config == "" {
		return nil
	}
	if _, err := os.Stat(l.config); errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	f, problems := settings.Read(l.config)
	if f != nil {
		l.file = f
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

// apply moves the findings that do not count, and writes the baseline if that is wanted. files are those that were read,
// and scope is that of the run.
func (l *acceptFlags) apply(results []report.Result, files []manifest.File, scope suppress.Scope, stderr io.Writer) error {
	suppress.Apply(results, files, suppress.Options{Severities: l.file.Severities, Rules: l.file.Ignores, Folder: l.file.Folder()})
	if l.write {
		if err := l.writeBaseline(results, scope); err != nil {
			return err
		}
	}
	if l.known == nil {
		return nil
	}
	l.known.Apply(results)
	if gone := l.known.Gone(scope); gone > 0 {
		fmt.Fprintf(stderr, "%s: known findings that no longer occur: %d; remove them with --write-baseline\n", l.baseline, gone)
	}
	return nil
}

// writeBaseline writes the baseline, and uses it.
func (l *acceptFlags) writeBaseline(results []report.Result, scope suppress.Scope) error {
	if err := suppress.WriteBaseline(l.baseline, results, scope); err != nil {
		return err
	}
	var problems []manifest.Problem
	if l.known, problems = suppress.ReadBaseline(l.baseline); len(problems) > 0 {
		return fmt.Errorf("%s", problems[0])
	}
	return nil
}

// isFile reports whether a file has a name, which may be empty.
func isFile(file, name string) bool {
	return name != "" && filepath.Clean(file) == filepath.Clean(name)
}
