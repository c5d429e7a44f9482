package vendors

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"quaymaster.dev/internal/rules/catalog/library"
)

func TestSameSeedGeneratesSameServices(t *testing.T) {
	c, _ := library.BuiltIn().Find("azure")
	one, other, third := NewGenerator(c, 1), NewGenerator(c, 1), NewGenerator(c, 2)
	different := 0
	for number := range 200 {
		if diff := cmp.Diff(one.Case(number), other.Case(number)); diff != "" {
			t.Fatalf("case %d differs: %s", number, diff)
		}
		if !cmp.Equal(one.Case(number), third.Case(number)) {
			different++
		}
	}
	if different < 150 {
		t.Errorf("with another seed, only %d of 200 Services differ", different)
	}
}

// TestGeneratedServicesAreStorable: whatever the API server refuses never reaches a controller.
func TestGeneratedServicesAreStorable(t *testing.T) {
	for _, name := range library.BuiltIn().Services() {
		c, _ := library.BuiltIn().Find(name)
		g := NewGenerator(c, 1)
		for number := range 700 {
			one := g.Case(number)
			for _, problem := range unstorable(stored(one.Service)) {
				t.Errorf("%s case %d (%s): %s", name, number, one.Class, problem)
			}
		}
	}
}

func unstorable(svc *corev1.Service) []string {
	var problems []string
	for key := range svc.Annotations {
		problems = append(problems, validation.IsQualifiedName(strings.ToLower(key))...)
	}
	seen := map[string]bool{}
	for _, p := range svc.Spec.Ports {
		identity := string(p.Protocol) + "/" + p.TargetPort.String() + "/" + p.Name
		if p.Name == "" && len(svc.Spec.Ports) > 1 || seen[p.Name] || seen[identity] || p.Port < 1 {
			problems = append(problems, "ports without a name, or twice: "+identity)
		}
		seen[p.Name], seen[identity] = true, true
		if p.AppProtocol != nil {
			problems = append(problems, validation.IsQualifiedName(*p.AppProtocol)...)
		}
	}
	if class := svc.Spec.LoadBalancerClass; class != nil {
		problems = append(problems, validation.IsQualifiedName(*class)...)
	}
	if len(svc.Spec.IPFamilies) != len(svc.Spec.ClusterIPs) {
		problems = append(problems, "families and addresses differ")
	}
	return append(problems, validation.IsDNS1035Label(svc.Name)...)
}

// TestGeneratorReachesEveryAnnotation: of each annotation, it sets a value that the catalog accepts and one that it does not.
func TestGeneratorReachesEveryAnnotation(t *testing.T) {
	for _, name := range library.BuiltIn().Services() {
		c, _ := library.BuiltIn().Find(name)
		g := NewGenerator(c, 1)
		accepted, refused := map[string]bool{}, map[string]bool{}
		for number := range 90 * len(g.entries) {
			for key, value := range g.Case(number).Service.Annotations {
				if e, _, known := c.Contents().Find(key); known {
					if accepts(&e.Type, value) {
						accepted[e.Name] = true
					} else {
						refused[e.Name] = true
					}
				}
			}
		}
		for _, e := range g.entries {
			// Some values are invalid only to a check, or to a variant.
			mustRefuse := e.Invalid != nil && !accepts(&e.Type, *e.Invalid)
			if !accepted[e.Name] || !refused[e.Name] && mustRefuse {
				t.Errorf("%s: %s had a valid value: %t, an invalid one: %t", name, e.Name, accepted[e.Name], refused[e.Name])
			}
		}
	}
}
