package check

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/annotation"
)

// odd is a view in which every annotation has the same value.
type odd struct{ value annotation.Value }

func (o odd) Value(string) (annotation.Value, bool)          { return o.value, true }
func (odd) Set(string) bool                                  { return true }
func (o odd) Written(string) (string, bool)                  { return o.value.Text, true }
func (o odd) PortValue(string, int) (annotation.Value, bool) { return o.value, true }
func (odd) Expand(name string) string                        { return name }
func (o odd) Placeholder(string) (string, bool)              { return o.value.Text, true }

// unset is a view without annotations.
type unset struct{ odd }

func (unset) Value(string) (v annotation.Value, found bool)          { return v, false }
func (unset) Set(string) bool                                        { return false }
func (unset) Written(string) (string, bool)                          { return "", false }
func (unset) PortValue(string, int) (v annotation.Value, known bool) { return v, false }

// A catalog of a user can name any function, for annotations of any type.
func TestFunctionsTakeAnyValue(t *testing.T) {
	texts := []string{
		"", "x", "-1", "99999999999999999999", ":", "a:b:c", "5-1:80", "-", "a=b", "{}", "[]", "null", `"x"`, `{"80":1}`, `{"80":{"protocol":["TLS"]}}`,
		`{"a":null}`, `[null]`, `[{"a":1}]`, "10.0.0.0/8", "10.0.0.1", "::1", "10.0.0.9-10.0.0.1", "Mbps", "1Mbps", ",", " ", "\x00", "é",
	}
	class := "example.com/x"
	services := []*corev1.Service{
		{},
		{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{}}}},
		{Spec: corev1.ServiceSpec{
			LoadBalancerClass: &class, IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol}, LoadBalancerSourceRanges: []string{"x", "::/0"},
			Ports: []corev1.ServicePort{{Port: 80, Name: "x"}, {Port: 80, Protocol: corev1.ProtocolUDP}},
		}},
	}
	for name, f := range all {
		t.Run(name, func(t *testing.T) {
			for _, text := range texts {
				value := annotation.Value{Text: text, List: strings.Split(text, ","), Map: map[string]string{text: text}}
				with := map[string]string{}
				for _, arg := range slices.Concat(f.Args, f.Optional) {
					with[arg] = cmp.Or(text, "x")
				}
				for arg, right := range map[string]string{"rule": "ip", "field": "spec.ports.name"} { // others are problems of the catalog
					if with[arg] != "" {
						with[arg] = right
					}
				}
				for _, svc := range services {
					for _, view := range []View{odd{value}, unset{odd{value}}, odd{}} {
						f.Find(Subject{Service: svc, Value: value, Raw: text, With: with, View: view})
						f.Find(Subject{Service: svc, With: with, View: view})
					}
				}
			}
		})
	}
}
