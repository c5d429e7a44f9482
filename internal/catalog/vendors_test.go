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

// service returns a load balancer without findings in any catalog, changed as in the example.
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

// Every value's example is reviewed on its own; its requirements are covered by the examples of rules and by the corpus.
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
						t.Errorf("%s: invalid %q is accepted by a variant", a.Name, *v.Invalid)
					}
				}
			}
			if a.Default != "" {
				if _, err := a.Parse(a.Default); err != nil {
					t.Errorf("%s: default %q is refused: %v", a.Name, a.Default, err)
				}
			}
			if words := a.Words(); words == "" || strings.Contains(words, "%!") {
				t.Errorf("%s: allowed is %q", a.Name, words)
			}
			if a.Invalid == nil {
				continue
			}
			if _, err := a.Parse(*a.Invalid); err == nil {
				if problems := review(t, c, catalog.Example{Annotations: map[string]string{a.Name: *a.Invalid}}); len(problems) == 0 {
					t.Errorf("%s: invalid %q is accepted", a.Name, *a.Invalid)
				}
			}
		}
	})
}

func TestExamplesOfRules(t *testing.T) {
	each(t, func(t *testing.T, c *catalog.Catalog) {
		for _, r := range c.Document().Rules {
			if got := review(t, c, r.Valid); len(got) > 0 {
				t.Errorf("%s: the valid example has findings: %+v", r.ID, got)
			}
			got := review(t, c, r.Invalid)
			if len(got) != 1 || got[0].ID != c.Name+"-"+r.ID {
				t.Errorf("%s: the invalid example must break only the rule: %+v", r.ID, got)
			}
		}
	})
}

func review(t *testing.T, c *catalog.Catalog, e catalog.Example) []finding.Finding {
	t.Helper()
	set, err := catalog.NewSet([]string{c.Name}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return set.Review(nil, service(t, c, e))
}

func TestFindingsAreDocumented(t *testing.T) {
	each(t, func(t *testing.T, c *catalog.Catalog) {
		seen := map[string]bool{}
		for _, r := range c.Docs() {
			if seen[r.ID] || r.Help == "" || !strings.HasPrefix(r.ID, c.Name+"-") {
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
