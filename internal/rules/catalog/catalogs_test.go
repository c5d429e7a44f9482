package catalog_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/catalog"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

func each(t *testing.T, test func(t *testing.T, c *library.Catalog)) {
	t.Helper()
	for _, name := range library.BuiltIn().Names() {
		t.Run(name, func(t *testing.T) {
			c, _ := library.BuiltIn().Find(name)
			test(t, c)
		})
	}
}

func TestCatalogsAreComplete(t *testing.T) {
	each(t, func(t *testing.T, c *library.Catalog) {
		for _, problem := range c.Document().Problems() {
			t.Error(problem)
		}
	})
}

// service returns a load balancer without findings, changed by an example.
func service(t *testing.T, c *library.Catalog, e document.Example) *corev1.Service {
	t.Helper()
	svc := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
	}}
	if !c.Head.Owns.NoClass && !c.Head.Owns.AnyClass && len(c.Head.Owns.Classes) > 0 {
		svc.Spec.LoadBalancerClass = &c.Head.Owns.Classes[0]
	}
	raw, err := json.Marshal(e.Spec)
	if err == nil {
		err = json.Unmarshal(raw, &svc.Spec)
	}
	if err != nil {
		t.Fatal(err)
	}
	svc.Annotations = e.Annotations
	return svc
}

// The examples of annotations are validated without other annotations. Those that they require are in the examples of
// checks and in the corpus.
func TestExamplesOfValues(t *testing.T) {
	each(t, func(t *testing.T, c *library.Catalog) {
		for _, a := range c.Document().Annotations {
			if p, err := a.Parse(a.Valid); err != nil || p.Absent {
				t.Errorf("%s: valid example %q is refused: %v", a.Name, a.Valid, err)
			}
			for _, v := range a.Variants {
				if p, err := v.Parse(v.Valid); err != nil || p.Absent {
					t.Errorf("%s: a variant refuses its valid example %q: %v", a.Name, v.Valid, err)
				}
				if v.Invalid != nil {
					if _, err := v.Parse(*v.Invalid); err == nil {
						t.Errorf("%s: a variant accepts its invalid example %q", a.Name, *v.Invalid)
					}
				}
			}
			if a.Default != "" {
				if _, err := a.Parse(a.Default); err != nil {
					t.Errorf("%s: default %q is refused: %v", a.Name, a.Default, err)
				}
			}
			if expected := a.Expected(); expected == "" || strings.Contains(expected, "%!") {
				t.Errorf("%s: expected values are %q", a.Name, expected)
			}
			if a.Invalid == nil {
				continue
			}
			if _, err := a.Parse(*a.Invalid); err == nil {
				e := document.Example{Annotations: map[string]string{a.Name: *a.Invalid}}
				if findings := review(t, c, e); len(findings) == 0 {
					t.Errorf("%s: invalid example %q is accepted", a.Name, *a.Invalid)
				}
			}
		}
	})
}

func TestExamplesOfChecks(t *testing.T) {
	each(t, func(t *testing.T, c *library.Catalog) {
		for _, r := range c.Document().Checks {
			if got := review(t, c, r.Valid); len(got) > 0 {
				t.Errorf("%s: the valid example has findings: %+v", r.ID, got)
			}
			got := review(t, c, r.Invalid)
			if len(got) != 1 || got[0].ID != idPrefix(c)+r.ID {
				t.Errorf("%s: the invalid example must have exactly the finding of the check: %+v", r.ID, got)
			}
		}
	})
}

func idPrefix(c *library.Catalog) string {
	if c.IDPrefix != "" {
		return c.IDPrefix
	}
	return c.Name + "-"
}

func review(t *testing.T, c *library.Catalog, e document.Example) []finding.Finding {
	t.Helper()
	set, err := catalog.NewSet(catalog.Options{DefaultClass: true, Catalogs: []string{c.Name}})
	if err != nil {
		t.Fatal(err)
	}
	return finding.Merge(set.Parse(service(t, c, e)).Validate())
}

func TestFindingsAreDocumented(t *testing.T) {
	each(t, func(t *testing.T, c *library.Catalog) {
		seen := map[string]bool{}
		for _, r := range c.Docs() {
			if seen[r.ID] || r.Help == "" || !strings.HasPrefix(r.ID, idPrefix(c)) {
				t.Errorf("finding is documented twice, has no help or the wrong prefix: %+v", r)
			}
			seen[r.ID] = true
		}
	})
}

func TestNames(t *testing.T) {
	if names := library.BuiltIn().Names(); !slices.IsSorted(names) || len(names) == 0 {
		t.Errorf("names are empty or not sorted: %q", names)
	}
}

// BenchmarkReview validates a Service by the catalog of its cloud, and by all catalogs.
func BenchmarkReview(b *testing.B) {
	svc := &corev1.Service{}
	svc.Annotations = map[string]string{
		"load-balancer.hetzner.cloud/location": "fsn1", "load-balancer.hetzner.cloud/protocol": "https",
		"load-balancer.hetzner.cloud/http-certificates": "shop", "load-balancer.hetzner.cloud/health-check-interval": "15s",
	}
	svc.Spec.Type, svc.Spec.Ports = corev1.ServiceTypeLoadBalancer, []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP}}
	for name, catalogs := range map[string][]string{"one": {"hcloud"}, "all": library.BuiltIn().Names()} {
		b.Run(name, func(b *testing.B) {
			set, err := catalog.NewSet(catalog.Options{DefaultClass: true, Catalogs: catalogs})
			if err != nil {
				b.Fatal(err)
			}
			set.Parse(svc).Validate() // loads the catalogs
			b.ReportAllocs()
			for b.Loop() {
				finding.Merge(set.Parse(svc).Validate())
			}
		})
	}
}
