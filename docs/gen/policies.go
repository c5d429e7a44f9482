package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// policiesPage returns the reference of the fields of policies, from the schemas of their CRDs.
func policiesPage() (string, error) {
	var b strings.Builder
	b.WriteString("# Fields of policies\n\n" + generated + `
The fields of the two kinds of policies, as ` + "`kubectl explain lbpol.spec` and `kubectl explain clbpol.spec`" + ` describe them.
[Policies](../guides/policies.md) explains what they do, with examples. Fields of a list have the suffix ` + "`[]`" + `.
Required fields are marked with \*.
`)
	for _, plural := range []string{"loadbalancerpolicies", "clusterloadbalancerpolicies"} {
		raw, err := os.ReadFile("charts/quaymaster/files/crds/quaymaster.dev_" + plural + ".yaml")
		if err != nil {
			return "", err
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
			return "", err
		}
		for _, version := range crd.Spec.Versions {
			schema := version.Schema.OpenAPIV3Schema
			fmt.Fprintf(&b, "\n## %s\n\n`apiVersion: %s/%s`, short name `%s`. %s\n", crd.Spec.Names.Kind, crd.Spec.Group, version.Name,
				strings.Join(crd.Spec.Names.ShortNames, "`, `"), text(schema.Description))
			for _, part := range []string{"spec", "status"} {
				b.WriteString("\n| field | type | meaning |\n|---|---|---|\n")
				fields(&b, part, schema.Properties[part], slices.Contains(schema.Required, part))
			}
		}
	}
	return b.String(), nil
}

// fields writes a row for a field and each field below it.
func fields(b *strings.Builder, path string, schema apiextensionsv1.JSONSchemaProps, required bool) {
	mark := ""
	if required {
		mark = `\*`
	}
	kind, limits := kindOf(&schema)
	meaning := strings.TrimSpace(text(schema.Description) + limits)
	fmt.Fprintf(b, "| `%s`%s | %s | %s |\n", path, mark, kind, strings.ReplaceAll(meaning, "|", `\|`))
	if path == "status.conditions" || path == "spec.namespaceSelector" {
		return // types of Kubernetes
	}
	of := schema
	if schema.Items != nil {
		of = *schema.Items.Schema
		path += "[]"
	}
	for _, name := range slices.Sorted(maps.Keys(of.Properties)) {
		fields(b, path+"."+name, of.Properties[name], slices.Contains(of.Required, name))
	}
}

// kindOf returns the type of a field and, as sentences, what the schema requires of it.
func kindOf(s *apiextensionsv1.JSONSchemaProps) (kind, limits string) {
	kind = s.Type
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	bound := func(name string, value *int64) {
		if value != nil {
			say("%s %d", name, *value)
		}
	}
	switch {
	case s.XIntOrString:
		kind = "integer or string"
	case s.Items != nil:
		kind = "list of " + map[string]string{"string": "strings", "object": "objects"}[s.Items.Schema.Type]
	case s.AdditionalProperties != nil:
		kind = "map of strings"
	case s.Format == "date-time":
		kind = "time"
	}
	if s.Default != nil {
		say("default `%s`", strings.Trim(string(s.Default.Raw), `"`))
	}
	for _, value := range s.Enum {
		say("`%s`", strings.Trim(string(value.Raw), `"`))
	}
	bound("minimum length", s.MinLength)
	bound("maximum length", s.MaxLength)
	bound("minimum number", s.MinItems)
	bound("maximum number", s.MaxItems)
	bound("minimum number", s.MinProperties)
	bound("maximum number", s.MaxProperties)
	if s.Items != nil {
		bound("maximum length of each", s.Items.Schema.MaxLength)
	}
	rules := s.XValidations
	if s.Items != nil {
		rules = append(slices.Clone(rules), s.Items.Schema.XValidations...)
	}
	for _, rule := range rules {
		say("%s", rule.Message)
	}
	if len(said) > 0 {
		limits = " (" + strings.Join(said, "; ") + ")"
	}
	return kind, limits
}

// text returns a comment as one line.
func text(comment string) string { return strings.Join(strings.Fields(comment), " ") }
