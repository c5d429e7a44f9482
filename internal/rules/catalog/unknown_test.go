package catalog_test

import (
	"slices"
	"testing"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/test/builder"
)

// found returns severities, ids and remedies of the findings about an annotation.
func found(t *testing.T, o catalog.Options, key, value string) []string {
	t.Helper()
	set, err := catalog.NewSet(o)
	if err != nil {
		t.Fatal(err)
	}
	svc := builder.Service()
	svc.Annotations = map[string]string{key: value}
	var all []string
	for _, f := range set.Parse(svc).Validate() {
		all = append(all, string(f.Severity)+" "+f.ID+": "+f.Remedy)
	}
	return all
}

// A newer controller may read a key that its catalog does not know, but not a misspelling of a known one.
func TestSeverityOfUnknownKeys(t *testing.T) {
	const (
		hetzner = "load-balancer.hetzner.cloud/"
		do      = "service.beta.kubernetes.io/do-loadbalancer-"
		azure   = "service.beta.kubernetes.io/azure-load-balancer-"
		look    = "remove it, or look for the right one with quayctl explain"
	)
	for key, test := range map[string]struct{ catalog, want string }{
		hetzner + "lokation":               {"hcloud", `error hcloud-unknown-key: did you mean "` + hetzner + `location"?`},
		"Load-Balancer.Hetzner.cloud/name": {"hcloud", `error hcloud-unknown-key: did you mean "` + hetzner + `name"?`},
		"Load-Balancer.Hetzner.cloud/zzz":  {"hcloud", "error hcloud-unknown-key: write the part before the slash in lower case"},
		hetzner + "algorithm":              {"hcloud", `warning hcloud-unknown-key: did you mean "` + hetzner + `algorithm-type"?`},
		hetzner + "something-new":          {"hcloud", "warning hcloud-unknown-key: " + look},
		do + "https-ports":                 {"digitalocean", `warning digitalocean-unknown-key: did you mean "` + do + `tls-ports"?`},
		azure + "sku":                      {"azure", "warning azure-unknown-key: " + look},
		"service.beta.kubernetes.io/aws-load-balancer-scheme": {
			"aws", `warning aws-unknown-key: did you mean "service.beta.kubernetes.io/aws-load-balancer-internal"?`,
		},
		"load-balancer.hetzner.com/location": {"hcloud", `warning hcloud-unknown-key: did you mean "` + hetzner + `location"?`},
		"hetzner.com/something-new":          {"hcloud", ""},
		"csi.hetzner.cloud/location":         {"hcloud", ""},
		"networking.gke.io/network-tier":     {"gcp", `warning gcp-unknown-key: did you mean "cloud.google.com/network-tier"?`},
		"service.beta.kubernetes.io/port_80_no-lb-rule": {
			"azure", `error azure-unknown-key: did you mean "service.beta.kubernetes.io/port_80_no_lb_rule"?`,
		},
		"service.beta.kubernetes.io/do-load-balancer-name": {"digitalocean", `error digitalocean-unknown-key: did you mean "` + do + `name"?`},
		"service.kubernetes.io/dlb-something-new":          {"mycloud", ""},
		"MetalLB.universe.tf/address-pool":                 {"metallb", `error metallb-unknown-key: did you mean "metallb.universe.tf/address-pool"?`},
		"service.beta.kubernetes.io/dlb-something-new":     {"mycloud", "error dlb-unknown-key: " + look},
	} {
		o := catalog.Options{DefaultClass: true, Catalogs: []string{test.catalog}}
		var want []string
		if test.want != "" {
			want = []string{test.want}
		}
		if got := found(t, o, key, "x"); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestUnknownKeys(t *testing.T) {
	const typo, other = "load-balancer.hetzner.cloud/lokation", "load-balancer.hetzner.cloud/something-new"
	// Kubernetes may own the domain, which the catalog shares.
	const displaced = "service.kubernetes.io/load-balancer-source-ranges"
	for how, want := range map[catalog.UnknownKeys][3]string{
		"": {"error", "warning", "warning"}, catalog.UnknownTypos: {"error", "warning", "warning"},
		catalog.UnknownError: {"error", "error", "warning"}, catalog.UnknownWarn: {"warning", "warning", "warning"},
		catalog.UnknownIgnore: {"audit", "audit", "audit"},
	} {
		o := catalog.Options{DefaultClass: true, Catalogs: []string{"hcloud", "gcp"}, UnknownKeys: map[string]catalog.UnknownKeys{"": how}}
		for i, key := range []string{typo, other, displaced} {
			if got := found(t, o, key, "x"); len(got) != 1 || got[0][:len(want[i])] != want[i] {
				t.Errorf("%s with %q: got %q, want %s", key, how, got, want[i])
			}
		}
	}
}

// Nothing that depends on a value with a placeholder is reported, either.
func TestPlaceholders(t *testing.T) {
	const key = "load-balancer.hetzner.cloud/health-check-interval"
	for value, want := range map[string]bool{
		"${INTERVAL}": true, "${INTERVAL:-15s}": true, "$(INTERVAL)": true, "<interval>": true, "{{ .Values.interval }}": true, "15${UNIT}": true, "($interval)": true, "(interval)": false,
		"15": false, "$INTERVAL": false, "<15": false, "": false,
	} {
		for _, placeholders := range []bool{true, false} {
			got := found(t, catalog.Options{DefaultClass: true, Catalogs: []string{"hcloud"}, Placeholders: placeholders}, key, value)
			if isNote := len(got) == 1 && got[0][:4] == "note"; isNote != (want && placeholders) {
				t.Errorf("%q, placeholders %t: got %q", value, placeholders, got)
			}
		}
	}
}

// A name of a cloud is answered with that of its catalog.
func TestDidYouMean(t *testing.T) {
	for name, want := range map[string]string{
		"hetzner": "hcloud", "Oracle": "oci", "google": "gcp", "akamai": "linode", "hclod": "hcloud", "nothing-like-it": "",
	} {
		if want != "" {
			want = `; did you mean "` + want + `"?`
		}
		if got := library.BuiltIn().DidYouMean(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
