package inventory

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExampleIsValid(t *testing.T) {
	inv, err := Load(filepath.Join("..", "..", "..", "..", "examples", "inventory.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(inv.Instances) != 4 || len(inv.Prefixes()) != 4 {
		t.Errorf("%d instances, %d address pools", len(inv.Instances), len(inv.Prefixes()))
	}
}

func TestParseNamesEveryProblem(t *testing.T) {
	tests := map[string]struct {
		yaml string
		want []string
	}{
		"empty":     {"", nil},
		"no YAML":   {"a: [", []string{"must be valid YAML"}},
		"no object": {"- a", []string{"must be a map of fields"}},
		"wrong type": {
			"instances: {}", []string{"instances: Invalid value: \"object\": must be a list"},
		},
		"unknown fields": {
			"zone: []\nregions: [{id: r, nam: x}]", []string{"zone: Forbidden: unknown field", "regions[0].nam: Forbidden: unknown field"},
		},
		"references": {
			"zones: [{id: z, region: r}]\ninstances: [{id: i, hostname: h, type: t, zone: q}]",
			[]string{
				`zones[0].region: Not found: "r"`, `instances[0].type: Not found: "t"`, `instances[0].zone: Not found: "q"`,
			},
		},
		"identities": {
			"regions: [{id: r}, {id: r}, {}]", []string{`regions[1].id: Duplicate value: "r"`, "regions[2].id: Required value"},
		},
		"instances": {
			"regions: [{id: r}]\nzones: [{id: z, region: r}]\ninstance_types: [{id: t}]\ninstances:\n" +
				"- {id: a, hostname: h, type: t, zone: z, state: lost, addresses: [{type: inner, address: x}, {type: internal, family: ipv6, address: 10.0.0.1}]}\n" +
				"- {id: b, hostname: h, type: t, zone: z}",
			[]string{
				"instances[0].state: Unsupported value", "instances[0].addresses[0].type: Unsupported value",
				"instances[0].addresses[1].address: Invalid value", `instances[1].hostname: Duplicate value: "h"`,
			},
		},
		"address pools": {
			"address_pools: [{scheme: open, cidr: 10.0.0.1/24}]",
			[]string{"address_pools[0].scheme: Unsupported value", "address_pools[0].cidr: Invalid value"},
		},
		"volumes": {
			"regions: [{id: r}, {id: s}]\nzones: [{id: za, region: r}, {id: zb, region: s}]\nvolume_types: [{id: t, max_size_gib: 1, step_gib: 0}]\n" +
				"volumes: [{id: a, type: t, size_gib: 1, zones: [za, zb]}, {id: b, type: u, size_gib: 0, attached_to: i}]",
			[]string{
				"volume_types[0].step_gib: Invalid value", "volumes[0].zones[1]: Invalid value", `volumes[1].type: Not found: "u"`,
				"volumes[1].size_gib: Invalid value", "must have exactly one of zone and zones", `volumes[1].attached_to: Not found: "i"`,
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.yaml))
			if err == nil {
				if test.want != nil {
					t.Fatalf("no error, want %v", test.want)
				}
				return
			}
			if test.want == nil {
				t.Fatal(err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("not one line: %q", err)
			}
			for _, w := range test.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%q lacks %q", err, w)
				}
			}
		})
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.yaml")
	_, err := Load(path)
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v does not name %s", err, path)
	}
}

func TestRegionOf(t *testing.T) {
	inv := Inventory{Zones: []Zone{{ID: "a", Region: "r"}}}
	got := []string{inv.RegionOf("a"), inv.RegionOf("b")}
	if d := cmp.Diff([]string{"r", ""}, got); d != "" {
		t.Error(d)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("regions: [{id: r}]\nzones: [{id: z, region: r}]")
	f.Add("address_pools: [{scheme: public, cidr: 192.0.2.0/24}]")
	f.Add("volumes: [{id: v, zones: [a, b]}]")
	f.Fuzz(func(_ *testing.T, content string) {
		if inv, err := Parse([]byte(content)); err == nil {
			// An accepted inventory can be used.
			inv.Prefixes()
		}
	})
}
