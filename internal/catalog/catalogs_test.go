package catalog_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/catalog"
	"quaymaster.dev/internal/finding"
)

func each(t *testing.T, test func(t *testing.T, c *catalog.Catalog)) {
	t.Helper()
	for _, name := range catalog.Names() {
		t.Run(name, func(t *testing.T) {
			c, _ := catalog.Find(name)
			test(t, c)
		})
	}
}

func TestCatalogsAreComplete(t *testing.T) {
	each(t, func(t *testing.T, c *catalog.Catalog) {
		for _, problem := range c.Document().Problems() {
			t.Error(problem)
		}
	})
}

// service is a load balancer that every catalog has nothing to say about, changed as the example says.
func service(t *testing.T, c *catalog.Catalog, e catalog.Example) *corev1.Service {
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

// Every value's example is judged with the value alone; what it requires stands beside it in the examples of rules and in the corpus.
func TestExamplesOfValues(t *testing.T) {
	each(t, func(t *testing.T, c *catalog.Catalog) {
		for _, a := range c.Document().Annotations {
			if p, err := a.Parse(a.Valid); err != nil || p.Absent {
				t.Errorf("%s: valid %q is refused: %v", a.Name, a.Valid, err)
			}
			for _, v := range a.Variants {
				if p, err := v.Parse(v.Valid); err != nil || p.Absent {
					t.Errorf("%s: valid %q is refused by a variant: %v", a.Name, v.Valid, err)
				}
				if v.Invalid != nil {
					if _, err := v.Parse(*v.Invalid); err == nil {
						t.Errorf("%s: invalid %q is not by a variant", a.Name, *v.Invalid)
					}
				}
			}
			if a.Default != "" {
				if _, err := a.Parse(a.Default); err != nil {
					t.Errorf("%s: default %q is refused: %v", a.Name, a.Default, err)
				}
			}
			if words := a.Expected(); words == "" || strings.Contains(words, "%!") {
				t.Errorf("%s: allowed is %q", a.Name, words)
			}
			if a.Invalid == nil {
				continue
			}
			if _, err := a.Parse(*a.Invalid); err == nil {
				if problems := review(t, c, catalog.Example{Annotations: map[string]string{a.Name: *a.Invalid}}); len(problems) == 0 {
					t.Errorf("%s: invalid %q is not", a.Name, *a.Invalid)
				}
			}
		}
	})
}

func TestExamplesOfChecks(t *testing.T) {
	each(t, func(t *testing.T, c *catalog.Catalog) {
		for _, r := range c.Document().Checks {
			if got := review(t, c, r.Valid); len(got) > 0 {
				t.Errorf("%s: the valid example is not: %+v", r.ID, got)
			}
			got := review(t, c, r.Invalid)
			if len(got) != 1 || got[0].ID != idPrefix(c)+r.ID {
				t.Errorf("%s: the invalid example breaks not just the rule: %+v", r.ID, got)
			}
		}
	})
}

func idPrefix(c *catalog.Catalog) string {
	if c.IDPrefix != "" {
		return c.IDPrefix
	}
	return c.Name + "-"
}

func review(t *testing.T, c *catalog.Catalog, e catalog.Example) []finding.Finding {
	t.Helper()
	set, err := catalog.NewSet(catalog.Options{Catalogs: []string{c.Name}})
	if err != nil {
		t.Fatal(err)
	}
	return finding.Merge(set.Parse(service(t, c, e)).Validate())
}

func TestFindingsAreDocumented(t *testing.T) {
	each(t, func(t *testing.T, c *catalog.Catalog) {
		seen := map[string]bool{}
		for _, r := range c.Docs() {
			if seen[r.ID] || r.Help == "" || !strings.HasPrefix(r.ID, idPrefix(c)) {
				t.Errorf("rule %+v", r)
			}
			seen[r.ID] = true
		}
	})
}

func TestNames(t *testing.T) {
	if names := catalog.Names(); !slices.IsSorted(names) || len(names) == 0 {
		t.Errorf("names %q", names)
	}
}
