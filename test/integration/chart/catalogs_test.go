package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/test/harness/env"
)

// TestSchemaKnowsCatalogs checks that the schema accepts exactly the existing catalogs.
func TestSchemaKnowsCatalogs(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "quaymaster", "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Catalogs struct {
				Items struct{ Enum []string }
			}
			Webhook struct {
				Properties struct {
					UnknownKeys struct {
						Properties struct {
							Of struct{ Properties map[string]any }
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	known := library.BuiltIn().Names()
	if diff := cmp.Diff(known, schema.Properties.Catalogs.Items.Enum); diff != "" {
		t.Errorf("the enum of catalogs (-want +got):\n%s", diff)
	}
	others := slices.DeleteFunc(slices.Clone(known), func(name string) bool { return name == loadbalancer.Catalog })
	of := schema.Properties.Webhook.Properties.UnknownKeys.Properties.Of.Properties
	if diff := cmp.Diff(others, slices.Sorted(maps.Keys(of))); diff != "" {
		t.Errorf("the names in webhook.unknownKeys.of (-want +got):\n%s", diff)
	}
	for name, catalogs := range map[string][]any{
		"unknown": {"hcloud", "unknown"},
		"twice":   {"hcloud", "hcloud"},
		"none":    {},
	} {
		if _, err := env.RenderChart(env.Values{"catalogs": catalogs}); err == nil || !strings.Contains(err.Error(), "/catalogs") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	all := make([]any, 0, len(known))
	for _, name := range slices.Backward(known) {
		all = append(all, name)
	}
	if _, err := env.RenderChart(env.Values{"catalogs": all}); err != nil {
		t.Error(err)
	}
}
