package strictyaml

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

type document struct {
	Name  string             `json:"name"`
	Sizes []int              `json:"sizes"`
	Inner struct{ Port int } `json:"inner"`
}

func TestDecode(t *testing.T) {
	tests := map[string]struct {
		text  string
		want  []string
		fails bool
	}{
		"good":           {text: "name: a\nsizes: [1, 2]\ninner: {Port: 3}"},
		"empty":          {text: ""},
		"unknown fields": {text: "nme: a\ninner: {port: 3}", want: []string{"inner.port", "nme"}},
		"types and unknown": {
			text: "name: 1\nsizes: x\ninner: []\nfoo: 1", want: []string{"inner", "name", "sizes", "foo"},
		},
		"type inside a list": {text: "sizes: [1, x]", want: []string{"sizes"}},
		"duplicate field":    {text: "name: a\nname: b", fails: true},
		"no YAML":            {text: "name: [", fails: true},
		"no map":             {text: "- a", fails: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			errs, err := Decode([]byte(test.text), &document{})
			var got []string
			for _, e := range errs {
				got = append(got, e.Field)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || (err != nil) != test.fails {
				t.Errorf("%v, %v (-want +got):\n%s", errs, err, diff)
			}
		})
	}
}

func TestDecodeKeepsDefaults(t *testing.T) {
	d := document{Name: "default"}
	if errs, err := Decode([]byte("sizes: [1]"), &d); err != nil || len(errs) > 0 || d.Name != "default" ||
		len(d.Sizes) != 1 {
		t.Errorf("got %+v, %v, %v", d, errs, err)
	}
}

// FuzzDecode looks for documents that make Decode panic or hang.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"name: a", "inner: {Port: x}", "sizes: [x]", "name: {a: b}", "? a\n: b", "&a [*a]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if errs, err := Decode(data, &document{}); err != nil && len(errs) > 0 {
			t.Errorf("both %v and %v", errs, err)
		}
	})
}
