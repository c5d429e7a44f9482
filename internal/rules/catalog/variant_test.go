package catalog

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// twoKinds returns a catalog with an exclusive prefix that begins with a shared one, and one key that has another type
// on Services with a loadBalancerClass.
func twoKinds() *library.Catalog {
	set, no := true, "yes"
	return catalogOf(document.Head{
		Name: "two", Title: "Two", Prefixes: []string{"example.com/two-"}, SharedPrefixes: []string{"example.com/"},
		Owns: document.Ownership{AnyClass: true},
	}, document.Body{Annotations: []document.Annotation{{
		Name: "example.com/two-drain", Aliases: []string{"example.com/two-old-draining"}, Type: annotation.Type{Type: annotation.Bool, Dialect: annotation.OnOff},
		OnInvalid: document.Refused, OnChange: document.Refused, Valid: "on", Invalid: &no,
		Variants: []document.Variant{{
			If:   []document.Condition{{Field: "spec.loadBalancerClass", Set: &set}},
			Type: annotation.Type{Type: annotation.Bool, Dialect: annotation.OnOff, Fold: true}, OnInvalid: document.Ignored, Valid: "ON", Invalid: &no,
		}},
	}}})
}

func withKey(class, key, value string) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: value}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if class != "" {
		svc.Spec.LoadBalancerClass = &class
	}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	return svc
}

func problemsOf(findings []finding.Finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, string(f.Severity)+" "+f.ID)
	}
	return all
}

func TestVariants(t *testing.T) {
	const key = "example.com/two-drain"
	set := Set{catalogs: []*library.Catalog{twoKinds()}}
	for name, test := range map[string]struct {
		old, svc *corev1.Service
		want     []string
	}{
		"the annotation itself":      {nil, withKey("", key, "ON"), []string{"error two-invalid-value"}},
		"the variant":                {nil, withKey("other", key, "ON"), nil},
		"the outcome of the variant": {nil, withKey("other", key, "yes"), []string{"warning two-invalid-value"}},
		"a change":                   {withKey("", key, "off"), withKey("", key, "on"), []string{"error two-changed"}},
		"an allowed change":          {withKey("other", key, "off"), withKey("other", key, "on"), nil},
		"an alias":                   {nil, withKey("other", "example.com/two-old-draining", "On"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := problemsOf(reviewed(set, test.old, test.svc)); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestVariantsAreComplete(t *testing.T) {
	c := twoKinds()
	d := c.Document()
	v := &d.Annotations[0].Variants[0]
	v.If, v.OnInvalid, v.Invalid = []document.Condition{{Key: "example.com/two-drain", Set: v.If[0].Set}}, "", nil
	for _, want := range []string{
		"a variant of example.com/two-drain lacks onInvalid",
		"a variant of example.com/two-drain lacks an invalid example",
		"a variant of example.com/two-drain must have conditions, and only of fields",
	} {
		if problems := d.Problems(); !slices.ContainsFunc(problems, func(p document.Problem) bool { return p.Text == want }) {
			t.Errorf("%q is not among %q", want, problems)
		}
	}
}

func TestUnknownKeysUnderNestedPrefixes(t *testing.T) {
	set := Set{catalogs: []*library.Catalog{twoKinds()}}
	for key, want := range map[string][]string{
		"example.com/two-something-else": {"warning two-unknown-key"},
		"example.com/two-old-drainig":    {"error two-unknown-key"},
		"example.com/three":              nil,
	} {
		if got := problemsOf(reviewed(set, nil, withKey("", key, "x"))); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}

func TestMistypedAliasIsRecognised(t *testing.T) {
	findings := reviewed(Set{catalogs: []*library.Catalog{twoKinds()}}, nil, withKey("", "example.com/two-old-drainig", "x"))
	if len(findings) != 1 || findings[0].Remedy != `did you mean "example.com/two-old-draining"?` {
		t.Errorf("got %+v", findings)
	}
}

func TestInvalidValuesAreSet(t *testing.T) {
	v := (Set{catalogs: []*library.Catalog{twoKinds()}}).Parse(withKey("", "example.com/two-drain", "ON")).views[0]
	set := true
	if holds, known := v.holds(document.Condition{Key: "example.com/two-drain", Set: &set}, service); !holds || !known {
		t.Errorf("an invalid value must count as set: holds %t, known %t", holds, known)
	}
	if _, known := v.holds(document.Condition{Key: "example.com/two-drain", Is: []string{"true"}}, service); known {
		t.Error("a condition on an invalid value must not be known")
	}
}
