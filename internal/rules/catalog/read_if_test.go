package catalog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/rules/finding"
)

// catalogOf returns a catalog for tests.
func catalogOf(h document.Head, b document.Body) *library.Catalog {
	c, _ := library.BuiltIn().With(document.Document{Head: h, Body: b}).Find(h.Name)
	return c
}

// setOf returns a set of one catalog with a body for tests.
func setOf(b document.Body) Set {
	h := document.Head{Name: "sample", Title: "Sample", Prefixes: []string{"sample/"}, Owns: document.Ownership{AnyClass: true}}
	return Set{catalogs: []*library.Catalog{catalogOf(h, b)}}
}

// reviewed returns the findings of an update, or of a creation.
func reviewed(set Set, oldSvc, newSvc *corev1.Service) []finding.Finding {
	is, was := set.Parse(newSvc), set.Parse(oldSvc)
	if !was.LoadBalancer() {
		return finding.Merge(is.Validate())
	}
	return finding.Ratchet(was.Validate(), append(is.Validate(), is.Changes(was)...))
}

// balancer returns a load balancer with annotations and an address.
func balancer(annotations map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}}},
	}
}

// brief returns the severities of findings by id.
func brief(findings []finding.Finding) map[string]finding.Severity {
	found := map[string]finding.Severity{}
	for _, f := range findings {
		found[f.ID] = f.Severity
	}
	return found
}

func TestReadIf(t *testing.T) {
	set := setOf(document.Body{Annotations: []document.Annotation{
		{Name: "sample/kind", Type: annotation.Type{Type: annotation.Enum, Values: []string{"big", "small"}}, Default: "small", OnInvalid: document.Refused},
		{
			Name: "sample/size", Type: annotation.Type{Type: annotation.Int}, OnInvalid: document.Refused, OnChange: document.Refused,
			ReadIf: []document.Condition{{Key: "sample/kind", Is: []string{"big"}}},
		},
	}})
	unread := map[string]finding.Severity{"sample-requirement": finding.Warning}
	tests := map[string]struct {
		old, new map[string]string
		want     map[string]finding.Severity
	}{
		"read, and good":       {new: map[string]string{"sample/kind": "big", "sample/size": "3"}, want: map[string]finding.Severity{}},
		"read, and bad":        {new: map[string]string{"sample/kind": "big", "sample/size": "x"}, want: map[string]finding.Severity{"sample-invalid-value": finding.Error}},
		"unread by default":    {new: map[string]string{"sample/size": "3"}, want: unread},
		"unread, and bad":      {new: map[string]string{"sample/kind": "small", "sample/size": "x"}, want: unread},
		"not known if read":    {new: map[string]string{"sample/kind": "?", "sample/size": "3"}, want: map[string]finding.Severity{"sample-invalid-value": finding.Error}},
		"unread, and changed":  {old: map[string]string{"sample/size": "2"}, new: map[string]string{"sample/size": "3"}, want: unread},
		"read, and is changed": {old: map[string]string{"sample/kind": "big", "sample/size": "2"}, new: map[string]string{"sample/kind": "big", "sample/size": "3"}, want: map[string]finding.Severity{"sample-changed": finding.Error}},
		"absent, and not read": {new: map[string]string{"sample/kind": "small"}, want: map[string]finding.Severity{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var old *corev1.Service
			if test.old != nil {
				old = balancer(test.old)
			}
			if diff := cmp.Diff(test.want, brief(reviewed(set, old, balancer(test.new)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnread(t *testing.T) {
	set := setOf(document.Body{Annotations: []document.Annotation{
		{Name: "sample/kind", Type: annotation.Type{Type: annotation.Enum, Values: []string{"big", "small"}}, OnInvalid: document.Refused},
		{
			Name: "sample/size", Type: annotation.Type{Type: annotation.Int}, OnInvalid: document.Refused,
			Requires: []document.Requirement{{
				Any:      []document.Condition{{Key: "sample/kind", Is: []string{"big"}}, {Field: "spec.loadBalancerIP", Set: new(true)}},
				OnBreach: document.Ignored, Unread: true,
			}},
		},
		{
			Name: "sample/of-{port}", Type: annotation.Type{Type: annotation.Int}, OnInvalid: document.Refused,
		},
	}})
	invalid, unread := map[string]finding.Severity{"sample-invalid-value": finding.Error}, map[string]finding.Severity{"sample-requirement": finding.Warning}
	tests := map[string]struct {
		annotations map[string]string
		want        map[string]finding.Severity
	}{
		"read":                        {map[string]string{"sample/kind": "big", "sample/size": "x"}, invalid},
		"not read":                    {map[string]string{"sample/kind": "small", "sample/size": "x"}, unread},
		"not read, and good":          {map[string]string{"sample/kind": "small", "sample/size": "3"}, unread},
		"of a port":                   {map[string]string{"sample/of-80": "x"}, invalid},
		"of a port that is not there": {map[string]string{"sample/of-443": "x"}, map[string]finding.Severity{"sample-unknown-port": finding.Warning}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, brief(finding.Merge(set.Parse(balancer(test.annotations)).Validate()))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
