package reference_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/reference"
)

// keys returns the catalogs and keys of entries.
func keys(entries []reference.Entry) []string {
	var all []string
	for _, e := range entries {
		all = append(all, e.Catalog+" "+strings.TrimPrefix(e.Key, "service.beta.kubernetes.io/"))
	}
	return all
}

func TestFind(t *testing.T) {
	for name, test := range map[string]struct {
		key  string
		want []string
	}{
		"a key":               {"service.beta.kubernetes.io/dlb-listener-maxqps", []string{"mycloud dlb-listener-maxqps"}},
		"a port by number":    {"service.beta.kubernetes.io/dlb-listener-maxqps.443", []string{"mycloud dlb-listener-maxqps"}},
		"a port by name":      {"service.beta.kubernetes.io/dlb-listener-maxqps.https", []string{"mycloud dlb-listener-maxqps"}},
		"an empty port":       {"service.beta.kubernetes.io/dlb-listener-maxqps.", nil},
		"no form for a port":  {"service.beta.kubernetes.io/dlb-network-type.443", nil},
		"one of a family":     {"service.beta.kubernetes.io/port_443_no_lb_rule", []string{"azure port_{port}_no_lb_rule"}},
		"the family":          {"service.beta.kubernetes.io/port_{port}_no_lb_rule", []string{"azure port_{port}_no_lb_rule"}},
		"no port of a family": {"service.beta.kubernetes.io/port_x_no_lb_rule", nil},
		"an alias":            {"metallb.universe.tf/address-pool", []string{"metallb metallb.io/address-pool"}},
		"of two clouds":       {"service.beta.kubernetes.io/aws-load-balancer-type", []string{"aws aws-load-balancer-type", "aws-lbc aws-load-balancer-type"}},
		"part of a key":       {"dlb-network-type", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, keys(reference.Find(library.BuiltIn(), library.BuiltIn().Names(), test.key))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if found := reference.Find(library.BuiltIn(), []string{"hcloud"}, "metallb.io/address-pool"); found != nil {
		t.Errorf("found entries of another catalog: %v", keys(found))
	}
}

// Every form for a port finds its entry.
func TestPortForms(t *testing.T) {
	forms := 0
	for _, e := range reference.Search(library.BuiltIn(), library.BuiltIn().Names(), nil) {
		if e.PortForm == "" {
			continue
		}
		forms++
		key := strings.NewReplacer("<port number or name>", "443", "{port}", "443", "{any}", "x").Replace(e.PortForm)
		if found := reference.Find(library.BuiltIn(), []string{e.Catalog}, key); !slices.Equal(keys(found), keys([]reference.Entry{e})) {
			t.Errorf("%s finds %v, want %s", key, keys(found), e.Key)
		}
	}
	if forms < 20 {
		t.Errorf("only %d keys have a form for one port", forms)
	}
}

func TestSearch(t *testing.T) {
	for name, test := range map[string]struct {
		words, want []string
	}{
		"every word, in any case": {[]string{"LOCATION", "created"}, []string{
			"hcloud load-balancer.hetzner.cloud/location",
		}},
		"in an alias":  {[]string{"universe.tf", "shared"}, []string{"metallb metallb.io/allow-shared-ip"}},
		"by the cloud": {[]string{"hetzner", "algorithm"}, []string{"hcloud load-balancer.hetzner.cloud/algorithm-type"}},
		"nothing":      {[]string{"location", "submarine"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, keys(reference.Search(library.BuiltIn(), []string{"hcloud", "metallb"}, test.words))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	for word, want := range map[string]string{
		"load-balancer.hetzner.cloud/lokation": "load-balancer.hetzner.cloud/location",
		"metallb.universe.tf/address-pol":      "metallb.universe.tf/address-pool",
		"hcloud-invalid-vlue":                  "hcloud-invalid-value",
		"dlb-unknow-key":                       "dlb-unknown-key",
		"submarine":                            "",
	} {
		if got := reference.Nearest(library.BuiltIn(), []string{"hcloud", "metallb"}, word); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}
