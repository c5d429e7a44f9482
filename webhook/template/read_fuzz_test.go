package template_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	engine "quaymaster.dev/internal/rules/template"
	"quaymaster.dev/webhook/template"
)

// FuzzDecode compares what is kept of an object while it arrives with what audits find in the whole object.
func FuzzDecode(f *testing.F) {
	templates := []engine.Template{
		{Group: "a", Kind: "B", Annotations: "spec.one.annotations", Type: "spec.one.type", Types: []string{"x"}},
		{Group: "a", Kind: "B", Annotations: "spec.list[].inner[].annotations", Class: "spec.list[].class"},
		{Group: "a", Kind: "B", Annotations: "spec.list[].annotations"},
	}
	for _, spec := range []string{
		`{"one":{"annotations":{"a":"b","c":1},"type":"x"}}`,
		`{"list":[{"inner":[{"annotations":{"a":"b"}},{},null,7]},{"annotations":{"":"é\ud83d\ude00"}},[[]]],"more":[{"annotations":{"a":"b"}}]}`,
		`{"one":[{"annotations":{"a":"b"}}],"list":{"annotations":{"a":"b"}},"one.annotations":{"a":"b"}}`,
		`{"one":{"annotations":{"a.b":{"c":"d"},"x":"y"}}}`, `null`, `[]`, `{"one":`, `{"list":[}`,
	} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		text := `{"apiVersion":"a/v1","kind":"B","metadata":{"name":"n","annotations":{"a":"b"}},"spec":` + spec + `}`
		got, cut, err := template.Decoded(templates, iotest.OneByteReader(strings.NewReader(text)))
		// Names that occur twice, which no API server sends, are not compared.
		if valid := jsontext.Value(text).IsValid(); err != nil || cut || !valid {
			if err != nil && valid && !strings.Contains(err.Error(), "bytes") {
				t.Errorf("%s: %v", text, err)
			}
			return
		}
		var whole map[string]any
		if err := json.Unmarshal([]byte(text), &whole); err != nil {
			t.Fatal(err)
		}
		want := map[string]map[string]string{}
		for _, one := range templates {
			for _, indexes := range engine.Value(whole).Expand(one.Annotations) {
				path := engine.Fill(one.Annotations, indexes)
				if texts := engine.Value(whole).Strings(path); len(texts) > 0 {
					want[path] = texts
				}
			}
		}
		if len(want) == 0 && len(got) == 0 {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	})
}
