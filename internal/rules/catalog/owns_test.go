package catalog

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
)

// ownership belongs to a controller that ignores Services of the type theirs, and requires a type or a class.
var ownership = catalogOf(document.Head{Name: "sample", Owns: document.Ownership{
	NoClass: true,
	Classes: []string{"example.com/*"},
	When:    []document.Condition{{Key: "example.com/type", Not: []string{"theirs"}}},
	Any:     []document.Condition{{Key: "example.com/type", Is: []string{"ours"}}, {Field: "spec.loadBalancerClass", Set: new(true)}},
}}, document.Body{Annotations: []document.Annotation{
	{Name: "example.com/type", Type: annotation.Type{Type: annotation.Enum, Values: []string{"ours", "theirs", "neither"}}},
}})

func TestOwns(t *testing.T) {
	for name, c := range map[string]struct {
		class, value string
		want         bool
	}{
		"no type":                     {want: false},
		"ours":                        {value: "ours", want: true},
		"neither":                     {value: "neither", want: false},
		"an invalid value":            {value: "Ours", want: true},
		"a class in place of a value": {class: "example.com/x", want: true},
		"a class, but theirs":         {class: "example.com/x", value: "theirs", want: false},
		"a class of others":           {class: "example.org/x", value: "ours", want: false},
	} {
		t.Run(name, func(t *testing.T) {
			svc := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}},
				Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
			}
			if c.value != "" {
				svc.Annotations["example.com/type"] = c.value
			}
			if c.class != "" {
				svc.Spec.LoadBalancerClass = &c.class
			}
			if got := (Set{catalogs: []*library.Catalog{ownership}}).Parse(svc).views[0].owned; got != c.want {
				t.Errorf("got owned %t, want %t", got, c.want)
			}
		})
	}
}
