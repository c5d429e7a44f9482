package template_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	engine "quaymaster.dev/internal/rules/template"
	"quaymaster.dev/webhook/template"
)

// FuzzDecode compares what is kept of an object while it arrives with what a decoder finds in the whole object.
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
			collect(want, whole, "", one.Annotations)
		}
		if len(want) == 0 && len(got) == 0 {
			return
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	})
}

// collect collects the annotations at a path of a value, which is at another path itself.
func collect(all map[string]map[string]string, value any, at, path string) {
	if path == "" {
		texts := map[string]string{}
		fields, _ := value.(map[string]any)
		for key, value := range fields {
			if text, is := value.(string); is {
				texts[key] = text
			}
		}
		if len(texts) > 0 {
			all[at] = texts
		}
		return
	}
	step, rest, _ := strings.Cut(path, ".")
	name, list := strings.CutSuffix(step, "[]")
	fields, _ := value.(map[string]any)
	at = strings.TrimPrefix(at+"."+name, ".")
	if !list {
		collect(all, fields[name], at, rest)
		return
	}
	elements, _ := fields[name].([]any)
	for i, element := range elements {
		collect(all, element, fmt.Sprintf("%s[%d]", at, i), rest)
	}
}
