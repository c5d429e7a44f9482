package document

import (
	"slices"
	"testing"
)

// A function relies on the arguments that it has declared, so a wrong one is a problem of the catalog.
func TestProblemsOfArguments(t *testing.T) {
	for name, test := range map[string]struct {
		call Call
		want []string
	}{
		"right":            {Call{Name: "at-most-distinct", With: map[string]string{"max": "2"}}, nil},
		"no number":        {Call{Name: "at-most-distinct", With: map[string]string{"max": "many"}}, []string{`it passes at-most-distinct max "many", which must be a number`}},
		"a known rule":     {Call{Name: "field-is", With: map[string]string{"field": "spec.loadBalancerIP", "rule": "ipv4"}}, nil},
		"an unknown rule":  {Call{Name: "field-is", With: map[string]string{"field": "spec.loadBalancerIP", "rule": "ipv5"}}, []string{`it passes field-is a value that has "ipv5" in its rule, which does not exist, has a wrong parameter or is for other types`}},
		"an unknown field": {Call{Name: "field-is", With: map[string]string{"field": "spec.ip", "rule": "ipv4"}}, []string{"it passes field-is an unknown field spec.ip"}},
		"unknown keys": {Call{Name: "key-less-than", With: map[string]string{"key": "example.com/a", "than": "example.com/b"}}, []string{
			"it passes key-less-than an unknown key example.com/a", "it passes key-less-than an unknown key example.com/b",
		}},
		"nothing": {Call{Name: "at-most-distinct"}, []string{"it lacks the argument max of at-most-distinct"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &problems{}
			p.call("it", &test.call)
			var got []string
			for _, problem := range p.found {
				got = append(got, problem.Text)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
