package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/finding"
)

// A change of an immutable value is refused if both values are known. Without a value and a default, the old value is
// not known.
func TestChanges(t *testing.T) {
	set := setOf(document.Body{Annotations: []document.Annotation{
		{Name: "sample/zone", Type: annotation.Type{Type: annotation.Text}, OnInvalid: document.Refused, OnChange: document.Refused},
		{Name: "sample/size", Type: annotation.Type{Type: annotation.Int}, OnInvalid: document.Refused, OnChange: document.Refused, Default: "3"},
	}})
	const changed = "sample-changed"
	tests := map[string]struct {
		before, after map[string]string
		address       bool
		want          map[string]finding.Severity
	}{
		"other value":             {map[string]string{"sample/zone": "a"}, map[string]string{"sample/zone": "b"}, true, map[string]finding.Severity{changed: finding.Error}},
		"without a load balancer": {map[string]string{"sample/zone": "a"}, map[string]string{"sample/zone": "b"}, false, map[string]finding.Severity{}},
		"added":                   {nil, map[string]string{"sample/zone": "b"}, true, map[string]finding.Severity{changed: finding.Warning}},
		"removed":                 {map[string]string{"sample/zone": "a"}, nil, true, map[string]finding.Severity{changed: finding.Warning}},
		"explicit default":        {nil, map[string]string{"sample/size": "3"}, true, map[string]finding.Severity{}},
		"other than the default":  {nil, map[string]string{"sample/size": "4"}, true, map[string]finding.Severity{changed: finding.Error}},
		"invalid value corrected": {map[string]string{"sample/size": "x"}, map[string]string{"sample/size": "4"}, true, map[string]finding.Severity{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			was := balancer(test.before)
			if was.Status = (corev1.ServiceStatus{}); test.address {
				was.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			}
			if diff := cmp.Diff(test.want, brief(reviewed(set, was, balancer(test.after)))); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}
