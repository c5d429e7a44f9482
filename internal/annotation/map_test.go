package annotation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseMap(t *testing.T) {
	attributes := &Type{
		Type: Map, Trim: true, Escape: true, Keys: &Type{Type: Text, Rule: "min=1"},
		Entries: map[string]*Type{"enabled": {Type: Bool}, "seconds": {Type: Int}},
	}
	attributes.Complete("")
	for name, c := range map[string]struct {
		text string
		want map[string]string
	}{
		"entries of their types":       {text: "enabled=T, seconds=5, other=x", want: map[string]string{"enabled": "true", "seconds": "5", "other": "x"}},
		"wrong type":                   {text: "enabled=yes"},
		"empty value of a type":        {text: "seconds="},
		"empty value of none":          {text: "other=", want: map[string]string{"other": ""}},
		"empty key":                    {text: "=x"},
		"escaped comma":                {text: `other=x\,y,seconds=5`, want: map[string]string{"other": "x,y", "seconds": "5"}},
		"escaped backslash":            {text: `other=x\\,seconds=5`, want: map[string]string{"other": `x\`, "seconds": "5"}},
		"backslash at the end":         {text: `other=x\`, want: map[string]string{"other": `x\`}},
		"comma at the end":             {text: "other=x,"},
		"assignment within the value":  {text: "other=a=b=", want: map[string]string{"other": "a=b="}},
		"nothing at all":               {text: "", want: nil},
		"entry without an assignment":  {text: "other=x,seconds"},
		"escape that is not necessary": {text: `ot\her=\x`, want: map[string]string{"other": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := attributes.Parse(c.text)
			if (err == nil) != (c.want != nil) {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(c.want, p.Map); err == nil && diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}
