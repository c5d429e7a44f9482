package catalog_test

import (
	"slices"
	"strings"
	"testing"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/library"
)

func TestSelectedVersion(t *testing.T) {
	const key = "load-balancer.hetzner.cloud/public-net-ipv4"
	const warning = "warning hcloud-version: remove it, or select the version of your controller"
	for name, want := range map[string][]string{
		"hcloud": {"error hcloud-invalid-value: for example 4711"}, "hcloud@1.39": {"error hcloud-invalid-value: for example 4711"},
		"hcloud@1.30": {warning}, "hcloud@v1.38.2": {warning},
	} {
		at, names, err := library.BuiltIn().At([]string{name})
		if err != nil || !slices.Equal(names, []string{"hcloud"}) {
			t.Fatal(names, err)
		}
		if got := found(t, catalog.Options{DefaultClass: true, Catalogs: names, Library: at}, key, "x"); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if c, _ := library.BuiltIn().Find("hcloud"); c.Selected != "" {
		t.Error("the built-in catalog has changed")
	}
}

func TestVersionsOfCatalogs(t *testing.T) {
	for names, want := range map[string]string{
		"hcloud@latest": "must have a version such as 1.30 after hcloud@", "hcloud@": "must have a version such as 1.30",
		"aws@1.30": "must not have a version after aws", "hcloud@1.30,hcloud@1.31": "must have one version of hcloud",
		"hcloud@1.30,hcloud,alibaba@2.14.0,unknown@1": "",
	} {
		_, plain, err := library.BuiltIn().At(strings.Split(names, ","))
		switch {
		case want == "" && (err != nil || !slices.Equal(plain, []string{"hcloud", "hcloud", "alibaba", "unknown"})):
			t.Errorf("%s: got %v, %v", names, plain, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", names, err, want)
		}
	}
}
