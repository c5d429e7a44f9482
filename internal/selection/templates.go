package selection

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/template"
)

// AddTemplates adds --service-template.
func AddTemplates(fs *pflag.FlagSet, texts *[]string) {
	fs.StringArrayVar(texts, "service-template", nil,
		"another kind of which controllers create Services, as a JSON `object` with the fields group, kind, annotations, type, "+
			"types, class and catalogs; can be repeated")
}

// Templates parses --service-template. l has the catalogs that they may name; nil if it is not known.
func Templates(texts []string, l *library.Library) ([]template.Template, []error) {
	var all []template.Template
	var errs []error
	for _, text := range texts {
		var t template.Template
		if err := yaml.UnmarshalStrict([]byte(text), &t); err != nil {
			errs = append(errs, fmt.Errorf("--service-template must be a JSON object: %w; got %q", err, text))
			continue
		}
		for _, problem := range t.Problems() {
			errs = append(errs, fmt.Errorf("--service-template %s; got %q", problem, text))
		}
		for _, name := range t.Catalogs {
			if l != nil && !slices.Contains(l.Names(), name) {
				errs = append(errs, fmt.Errorf("--service-template: unknown catalog %q%s; got %q", name, l.DidYouMean(name), text))
			}
		}
		all = append(all, t)
	}
	return all, errs
}
