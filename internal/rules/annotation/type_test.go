package annotation

import (
	"strings"
	"testing"
)

// Catalogs of users have rules, too, and go-playground/validator panics on one that it does not know.
func TestProblemsOfRules(t *testing.T) {
	const wrong, undescribed = "which does not exist, has a wrong parameter or is for other types", "requires allowed"
	for name, test := range map[string]struct {
		of   Type
		want string
	}{
		"known":                    {Type{Type: Text, Rule: "min=1,max=63,dnslabel"}, ""},
		"of a number":              {Type{Type: Int, Rule: "min=1,max=65535"}, ""},
		"of a float":               {Type{Type: Float, Rule: "gte=0.1"}, ""},
		"of a duration":            {Type{Type: Duration, Rule: "min=1s,max=1h,wholesecs"}, ""},
		"of either":                {Type{Type: Text, Rule: "ip|cidr", Allowed: "an address"}, ""},
		"unknown tag":              {Type{Type: Text, Rule: "nosuch=3"}, wrong},
		"unknown tag behind":       {Type{Type: Text, Rule: "min=10,nosuch"}, wrong},
		"tag of elements":          {Type{Type: List, Rule: "dive,oneof=a b"}, wrong},
		"unknown alternative":      {Type{Type: Text, Rule: "min=1|nosuch", Allowed: "a text"}, wrong},
		"empty tag":                {Type{Type: Text, Rule: "min=1,"}, wrong},
		"no number":                {Type{Type: Text, Rule: "max=many"}, wrong},
		"no number behind":         {Type{Type: Text, Rule: "min=10,max=many"}, wrong},
		"no integer":               {Type{Type: Int, Rule: "max=1.5"}, wrong},
		"no duration":              {Type{Type: Duration, Rule: "min=5"}, wrong},
		"too few words":            {Type{Type: Text, Rule: "prefixed=cert-"}, wrong},
		"tag of another type":      {Type{Type: Text, Rule: "wholesecs"}, wrong},
		"length of a list":         {Type{Type: List, Rule: "max=3,unique"}, ""},
		"wrong alternative":        {Type{Type: Text, Rule: "min=1|max=many", Allowed: "a text"}, wrong},
		"no description":           {Type{Type: Text, Rule: "hexcolor"}, undescribed},
		"described":                {Type{Type: Text, Rule: "hexcolor", Allowed: "a color"}, ""},
		"no type of an entry":      {Type{Type: Map, Entries: map[string]*Type{"a": nil}}, `has no type for the entry "a"`},
		"unknown tag of a part":    {Type{Type: List, Of: &Type{Type: Text, Rule: "nosuch"}}, wrong},
		"a rule of what has none":  {Type{Type: Bool, Rule: "min=1"}, "has a rule, but is of a type that has none"},
		"unknown tag of something": {Type{Type: Enum, Values: []string{"a"}, Rule: "nosuch"}, "has a rule, but is of a type that has none"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := test.of.Problems()
			if test.want == "" && len(problems) > 0 || test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.want)) {
				t.Errorf("got %q, want %q", problems, test.want)
			}
		})
	}
}
