package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quaymaster.dev/internal/catalogfile"
	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/template"
	"quaymaster.dev/internal/selection"
)

// Catalogs are the flags that select catalogs.
type Catalogs struct {
	Names, Files []string
	// Library has the built-in catalogs and those of the files, once Load has been called.
	Library *library.Library
}

// AddFlags adds --catalog and --catalog-file. The first one may also be written --catalogs, as for the webhooks.
func (c *Catalogs) AddFlags(cmd *cobra.Command, usage string) {
	fs := cmd.Flags()
	fs.StringSliceVar(&c.Names, "catalog", nil, usage)
	fs.StringArrayVar(&c.Files, "catalog-file", nil,
		"`file` with a catalog to add or to change, or directory with such files; can be repeated")
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "catalogs" {
			name = "catalog"
		}
		return pflag.NormalizedName(name)
	})
	CompleteWith(cmd, "catalog", library.BuiltIn().Names())
}

// Load reads the catalogs and returns every problem of the flags.
func (c *Catalogs) Load() []string {
	sources, problems := catalogfile.Read(c.Files)
	var more []string
	if len(problems) == 0 {
		c.Library, problems = catalogfile.Extend(library.BuiltIn(), sources)
	}
	if len(problems) > 0 {
		for _, err := range catalogfile.Errors(problems) {
			more = append(more, err.Error())
		}
		return more // the names depend on the files
	}
	return UnknownCatalogs(c.Library, c.Names)
}

// UnknownCatalogs returns a problem for each name that is not a catalog.
func UnknownCatalogs(l *library.Library, names []string) []string {
	var problems []string
	for _, name := range names {
		if _, found := l.Find(name); !found {
			problems = append(problems, fmt.Sprintf("--catalog must be one or more of %s; got %q%s",
				strings.Join(l.Names(), ", "), name, l.DidYouMean(name)))
		}
	}
	return problems
}

// Engine are the flags for validation that lint and audit share.
type Engine struct {
	Catalogs
	Class

	unknownKeys, serviceTemplates []string
	// Unknown and Templates are parsed from the flags by Load.
	Unknown   map[string]catalog.UnknownKeys
	Templates []template.Template
}

// AddFlags adds the flags.
func (e *Engine) AddFlags(cmd *cobra.Command) {
	e.Catalogs.AddFlags(cmd,
		"`names` of the catalogs to validate annotations with, if known with versions of the controllers, as in hcloud@1.30; if "+
			"empty, they are detected for each Service")
	selection.AddUnknownKeys(cmd.Flags(), &e.unknownKeys)
	selection.AddTemplates(cmd.Flags(), &e.serviceTemplates)
	e.Class.AddFlags(cmd.Flags())
}

// choose selects catalogs, of which names may have versions.
func (e *Engine) choose(names []string) error {
	at, plain, err := e.Library.At(names)
	if err == nil {
		e.Library, e.Names = at, plain
	}
	return err
}

// Load reads the catalogs and returns every problem of the flags.
func (e *Engine) Load() []string {
	chosen := e.Names
	e.Names = slices.Clone(chosen)
	for i, name := range chosen {
		e.Names[i], _, _ = strings.Cut(name, "@")
	}
	problems := e.Catalogs.Load()
	if len(problems) > 0 {
		return problems
	}
	if err := e.choose(chosen); err != nil {
		problems = append(problems, "--catalog "+err.Error())
	}
	selected := e.Names
	if len(selected) == 0 {
		selected = e.Library.Names()
	}
	var errs, more []error
	e.Unknown, errs = selection.UnknownKeys(e.unknownKeys, selected)
	e.Templates, more = selection.Templates(e.serviceTemplates, e.Library)
	for _, err := range slices.Concat(errs, more) {
		problems = append(problems, err.Error())
	}
	return slices.Clip(problems)
}
