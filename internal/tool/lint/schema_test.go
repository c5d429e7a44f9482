package lint_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
	"quaymaster.dev/internal/tool/report"
)

// constraints returns those of a schema below a path, apart from types, which the decoder checks.
func constraints(path string, schema map[string]any) []string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(schema)) {
		switch value := schema[key].(type) {
		case map[string]any:
			switch key {
			case "properties":
				for name, property := range value {
					all = append(all, constraints(path+"."+name, property.(map[string]any))...)
				}
			case "items", "additionalProperties":
				all = append(all, constraints(path+"[]", value)...)
			}
		default:
			switch {
			case strings.HasPrefix(key, "max"), strings.HasPrefix(key, "min"), key == "enum", key == "pattern":
				all = append(all, path+" "+key)
			case key == "x-kubernetes-list-type" && value != "atomic":
				all = append(all, path+" unique")
			case key == "required":
				all = append(all, fmt.Sprint(path, " required ", value))
			case key == "x-kubernetes-validations":
				for _, rule := range value.([]any) {
					all = append(all, path+" rule: "+rule.(map[string]any)["message"].(string))
				}
			}
		}
	}
	return all
}

// The linter reports whatever the schema of the CRDs forbids.
func TestPoliciesAreValidatedByTheWholeSchema(t *testing.T) {
	many := func(n int, format string) string {
		var all []string
		for i := range n {
			all = append(all, strings.ReplaceAll(format, "N", fmt.Sprint(i)))
		}
		return strings.Join(all, ", ")
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	const expression = ".namespaceSelector.matchExpressions[]"
	broken := map[string]string{
		".defaults maxProperties": "{defaults: {" + many(65, "example.com/N: x") + "}}",
		".defaults minProperties": "{defaults: {}, rules: [{annotation: a, required: true}]}",
		".defaults rule: keys must be at most 317 and values at most 1024 characters long": "{defaults: {a: " + long(1025) + "}}",
		".rules maxItems":                "{rules: [" + many(65, "{annotation: example.com/N, required: true}") + "]}",
		".rules minItems":                "{rules: [], defaults: {a: b}}",
		".rules unique":                  "{rules: [{annotation: a, required: true}, {annotation: a, required: true}]}",
		".rules[] required [annotation]": "{rules: [{required: true}]}",
		".rules[] rule: min and max must be between -2147483648 and 2147483647": "{rules: [{annotation: a, max: 5000000000}]}",
		".rules[].annotation minLength":                                         "{rules: [{annotation: '', required: true}]}",
		".rules[].annotation maxLength":                                         "{rules: [{annotation: " + long(318) + ", required: true}]}",
		".rules[].allowed maxItems":                                             "{rules: [{annotation: a, allowed: [" + many(65, "xN") + "]}]}",
		".rules[].allowed minItems":                                             "{rules: [{annotation: a, required: true, allowed: []}]}",
		".rules[].allowed unique":                                               "{rules: [{annotation: a, allowed: [x, x]}]}",
		".rules[].allowed[] maxLength":                                          "{rules: [{annotation: a, allowed: [" + long(1025) + "]}]}",
		".rules[].pattern maxLength":                                            "{rules: [{annotation: a, pattern: " + long(1025) + "}]}",
		".rules[].pattern minLength":                                            "{rules: [{annotation: a, required: true, pattern: ''}]}",
		".rules[].message maxLength":                                            "{rules: [{annotation: a, required: true, message: " + long(513) + "}]}",
		".catalogs maxItems":                                                    "{catalogs: [" + many(33, "xN") + "]}",
		".catalogs minItems":                                                    "{catalogs: [], defaults: {a: b}}",
		".catalogs unique":                                                      "{catalogs: [hcloud, hcloud]}",
		".catalogs[] maxLength":                                                 "{catalogs: [" + long(64) + "]}",
		expression + " required [key operator]":                                 "{defaults: {a: b}, namespaceSelector: {matchExpressions: [{key: a}]}}",
	}
	known := map[string]bool{}
	for kind, file := range map[string]string{
		"LoadBalancerPolicy": "loadbalancerpolicies", "ClusterLoadBalancerPolicy": "clusterloadbalancerpolicies",
	} {
		raw, err := os.ReadFile("../../../charts/quaymaster/files/crds/quaymaster.dev_" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						OpenAPIV3Schema struct {
							Properties struct {
								Spec map[string]any `json:"spec"`
							} `json:"properties"`
						} `json:"openAPIV3Schema"`
					} `json:"schema"`
				} `json:"versions"`
			} `json:"spec"`
		}
		if err := yaml.Unmarshal(raw, &crd); err != nil {
			t.Fatal(err)
		}
		for _, constraint := range constraints("", crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties.Spec) {
			known[constraint] = true
			text := "apiVersion: quaymaster.dev/v1alpha1\nkind: " + kind + "\nmetadata: {name: p}\nspec: " + broken[constraint] + "\n"
			objects := manifest.Parse("f", []byte(text), lint.Wanted).Objects
			if _, results := (&lint.Linter{}).Policies(objects, nil); report.Count(results, finding.Error) == 0 {
				t.Errorf("%s breaks %q, which is not reported", text, constraint)
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(broken)), slices.Sorted(maps.Keys(known))); diff != "" {
		t.Errorf("constraints of the schema that are tried (-) and exist (+):\n%s", diff)
	}
}
