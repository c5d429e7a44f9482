// Package selection has the flags that select catalogs, the same for admission and for what reviews stored Services.
package selection

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/review"
)

// actionWarn is the default: a newer release of a cloud's controller may support the key, which must not cause an
// outage.
const actionWarn = "warn"

// actions maps the values of --unknown-keys to severities.
var actions = map[string]finding.Severity{"deny": finding.Error, actionWarn: finding.Warning, "ignore": finding.Audit}

// Flags hold the values of the flags.
type Flags struct{ names, unknownKeys []string }

// AddFlags adds --catalogs and --unknown-keys.
func (f *Flags) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.names, "catalogs", []string{loadbalancer.Catalog},
		"`names` of the catalogs to validate annotations with: "+strings.Join(library.BuiltIn().Names(), ", "))
	fs.StringSliceVar(&f.unknownKeys, "unknown-keys", []string{actionWarn},
		"`action` for annotations under another cloud's prefix that its catalog does not contain: deny, warn or "+
			"ignore, for all catalogs or for one as in hcloud=deny")
}

// Reviewer returns the Reviewer of Services that the flags describe, and every problem of the flags.
func (f *Flags) Reviewer(class string, defaultClass bool) (review.Reviewer, []error) {
	unknown, errs := UnknownKeys(f.unknownKeys, f.names)
	reviewer, err := review.New(catalog.Options{
		Catalogs: f.names, Class: class, ClassOnly: !defaultClass, UnknownKeys: unknown,
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("--catalogs: %w", err))
	}
	return reviewer, errs
}

// UnknownKeys parses --unknown-keys for the catalogs of --catalogs.
func UnknownKeys(entries, catalogs []string) (map[string]finding.Severity, []error) {
	var errs []error
	unknown := map[string]finding.Severity{"": actions[actionWarn]}
	for _, entry := range entries {
		name, action, ofOne := strings.Cut(entry, "=")
		if !ofOne {
			name, action = "", entry
		}
		severity, known := actions[action]
		if !known {
			errs = append(errs, fmt.Errorf("--unknown-keys must be deny, warn or ignore; got %q", entry))
		}
		if ofOne && !slices.Contains(catalogs, name) {
			errs = append(errs, fmt.Errorf("--unknown-keys must name catalogs that are selected, too; got %q", entry))
		}
		if ofOne && ownCatalog(name) {
			errs = append(errs, fmt.Errorf("--unknown-keys must not be set for %s, which always denies unknown keys; "+
				"got %q", name, entry))
		}
		unknown[name] = severity
	}
	return unknown, errs
}

// ownCatalog reports whether the catalog is that of Quaymaster's own controller.
func ownCatalog(name string) bool {
	c, found := library.BuiltIn().Find(name)
	return found && c.Own
}
