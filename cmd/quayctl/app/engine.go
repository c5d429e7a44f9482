package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quaymaster.dev/cmd/quayctl/app/flags"
	"quaymaster.dev/internal/catalogfile"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/selection"
)

// catalogFlags are the flags that select catalogs.
type catalogFlags struct {
	catalogs, files []string
	// library has the built-in catalogs and those of the files, once load has been called.
	library *library.Library
}

// addFlags adds --catalog and --catalog-file. The first one may also be written --catalogs, as for the webhooks.
func (c *catalogFlags) addFlags(cmd *cobra.Command, usage string) {
	fs := cmd.Flags()
	fs.StringSliceVar(&c.catalogs, "catalog", nil, usage)
	fs.StringArrayVar(&c.files, "catalog-file", nil,
		"`file` with a catalog to add or to change, or directory with such files; can be repeated")
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "catalogs" {
			name = "catalog"
		}
		return pflag.NormalizedName(name)
	})
	flags.CompleteWith(cmd, "catalog", library.BuiltIn().Names())
}

// load reads the catalogs and returns every problem of the flags.
func (c *catalogFlags) load() []string {
	sources, problems := catalogfile.Read(c.files)
	var more []string
	if len(problems) == 0 {
		c.library, problems = catalogfile.Extend(library.BuiltIn(), sources)
	}
	if len(problems) > 0 {
		for _, err := range catalogfile.Errors(problems) {
			more = append(more, err.Error())
		}
		return more // the names depend on the files
	}
	return unknownCatalogs(c.library, c.catalogs)
}

// unknownCatalogs returns a problem for each name that is not a catalog.
func unknownCatalogs(l *library.Library, names []string) []string {
	var problems []string
	for _, name := range names {
		if _, found := l.Find(name); !found {
			problems = append(problems, fmt.Sprintf("--catalog must be one or more of %s; got %q%s",
				strings.Join(l.Names(), ", "), name, l.DidYouMean(name)))
		}
	}
	return problems
}

// engineFlags are the flags for validation that lint and audit share.
type engineFlags struct {
	catalogFlags
	flags.Class

	unknownKeys []string
	// unknown is parsed from unknownKeys by load.
	unknown map[string]catalog.UnknownKeys
}

func (e *engineFlags) addFlags(cmd *cobra.Command) {
	e.catalogFlags.addFlags(cmd,
		"`names` of the catalogs to validate annotations with, if known with versions of the controllers, as in hcloud@1.30; if "+
			"empty, they are detected for each Service")
	selection.AddUnknownKeys(cmd.Flags(), &e.unknownKeys)
	e.Class.AddFlags(cmd.Flags())
}

// choose selects catalogs, of which names may have versions.
func (e *engineFlags) choose(names []string) error {
	at, plain, err := e.library.At(names)
	if err == nil {
		e.library, e.catalogs = at, plain
	}
	return err
}

// load reads the catalogs and returns every problem of the flags.
func (e *engineFlags) load() []string {
	chosen := e.catalogs
	e.catalogs = slices.Clone(chosen)
	for i, name := range chosen {
		e.catalogs[i], _, _ = strings.Cut(name, "@")
	}
	problems := e.catalogFlags.load()
	if len(problems) > 0 {
		return problems
	}
	if err := e.choose(chosen); err != nil {
		problems = append(problems, "--catalog "+err.Error())
	}
	selected := e.catalogs
	if len(selected) == 0 {
		selected = e.library.Names()
	}
	var errs []error
	e.unknown, errs = selection.UnknownKeys(e.unknownKeys, selected)
	for _, err := range errs {
		problems = append(problems, err.Error())
	}
	return slices.Clip(problems)
}
