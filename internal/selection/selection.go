// Package selection has the flags that select catalogs and add templates, the same for admission and for what reviews stored
// objects.
package selection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"quaymaster.dev/internal/catalogfile"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/review"
)

// unknownKeys are the values of --unknown-keys, the default first.
var unknownKeys = []catalog.UnknownKeys{
	catalog.UnknownTypos, catalog.UnknownError, catalog.UnknownWarn, catalog.UnknownIgnore,
}

// Flags hold the values of the flags.
type Flags struct{ names, unknownKeys, files []string }

// AddFlags adds --catalogs, --catalog-file and --unknown-keys.
func (f *Flags) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.names, "catalogs", []string{loadbalancer.Catalog},
		"`names` of the catalogs to validate annotations with: "+strings.Join(library.BuiltIn().Names(), ", "))
	AddUnknownKeys(fs, &f.unknownKeys)
	fs.StringArrayVar(&f.files, "catalog-file", nil,
		"`file` with a catalog to add or to change, or directory with such files; can be repeated")
}

// Files returns the values of --catalog-file.
func (f *Flags) Files() []string { return f.files }

// Reviewer returns the Reviewer of Services that the flags describe, and every problem of the flags.
func (f *Flags) Reviewer(class string, defaultClass bool) (review.Reviewer, []error) {
	sources, problems := catalogfile.Read(f.files)
	if len(problems) > 0 {
		return review.Reviewer{}, catalogfile.Errors(problems)
	}
	return f.ReviewerWith(sources, class, defaultClass)
}

// ReviewerWith is Reviewer for files that have been read.
func (f *Flags) ReviewerWith(sources []catalogfile.Source, class string, defaultClass bool) (review.Reviewer, []error) {
	all, problems := catalogfile.Extend(library.BuiltIn(), sources)
	if len(problems) > 0 {
		return review.Reviewer{}, catalogfile.Errors(problems)
	}
	unknown, errs := UnknownKeys(f.unknownKeys, f.names)
	reviewer, err := review.New(catalog.Options{
		Catalogs: f.names, Library: all, Class: class, DefaultClass: defaultClass, UnknownKeys: unknown,
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("--catalogs: %w", err))
	}
	return reviewer, errs
}

// AddUnknownKeys adds --unknown-keys.
func AddUnknownKeys(fs *pflag.FlagSet, entries *[]string) {
	fs.StringSliceVar(entries, "unknown-keys", []string{string(unknownKeys[0])},
		"`how` to report annotations under another cloud's prefix that its catalog does not contain: typos (errors for probable "+
			"misspellings of known keys, warnings for others), error, warn or ignore, for all catalogs or for one as in hcloud=error")
}

// UnknownKeys parses --unknown-keys for the catalogs of --catalogs; nil for catalogs that are detected.
func UnknownKeys(entries, catalogs []string) (map[string]catalog.UnknownKeys, []error) {
	var errs []error
	unknown := map[string]catalog.UnknownKeys{}
	for _, entry := range entries {
		name, how, ofOne := strings.Cut(entry, "=")
		if !ofOne {
			name, how = "", entry
		}
		if !slices.Contains(unknownKeys, catalog.UnknownKeys(how)) {
			errs = append(errs, fmt.Errorf("--unknown-keys must be typos, error, warn or ignore; got %q", entry))
		}
		if ofOne && catalogs != nil && !slices.Contains(catalogs, name) {
			errs = append(errs, fmt.Errorf("--unknown-keys must name catalogs that are selected, too; got %q", entry))
		}
		if ofOne && ownCatalog(name) {
			errs = append(errs, fmt.Errorf("--unknown-keys must not be set for %s, whose unknown keys are always errors; "+
				"got %q", name, entry))
		}
		unknown[name] = catalog.UnknownKeys(how)
	}
	return unknown, errs
}

// ownCatalog reports whether the catalog is that of Quaymaster's own controller.
func ownCatalog(name string) bool {
	c, found := library.BuiltIn().Find(name)
	return found && c.Own
}
