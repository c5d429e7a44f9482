package app

import (
	"fmt"
	"slices"
	"strings"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
	"quaymaster.dev/internal/review"
)

// actionWarn is the default: a newer release of a cloud's controller may know the key, and that must not become an outage.
const actionWarn = "warn"

// actions are what may happen to keys that a catalog does not know.
var actions = map[string]finding.Severity{"deny": finding.Error, actionWarn: finding.Warning, "ignore": finding.Audit}

// selectCatalogs makes the judge of the flags --catalogs and --unknown-keys.
func (o *webhookOptions) selectCatalogs() []error {
	var errs []error
	unknown := map[string]finding.Severity{"": actions[actionWarn]}
	for _, entry := range o.unknownKeys {
		name, action, ofOne := strings.Cut(entry, "=")
		if !ofOne {
			name, action = "", entry
		}
		severity, known := actions[action]
		if !known {
			errs = append(errs, fmt.Errorf("--unknown-keys must be deny, warn or ignore; got %q", entry))
		}
		if ofOne && !slices.Contains(o.catalogs, name) {
			errs = append(errs, fmt.Errorf("--unknown-keys must be of clouds among --catalogs; got %q", entry))
		}
		if ofOne && ownCatalog(name) {
			errs = append(errs, fmt.Errorf("--unknown-keys cannot be set for %s, which refuses them always; got %q", name, entry))
		}
		unknown[name] = severity
	}
	reviewer, err := review.New(catalog.Options{Catalogs: o.catalogs, Class: o.loadBalancerClass, UnknownKeys: unknown})
	if err != nil {
		errs = append(errs, fmt.Errorf("--catalogs: %w", err))
	}
	o.reviewer = reviewer
	return errs
}

// ownCatalog reports whether the catalog is that of Quaymaster's own controller.
func ownCatalog(name string) bool {
	c, found := catalog.Find(name)
	return found && c.Own
}
