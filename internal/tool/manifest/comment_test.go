package manifest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/tool/manifest"
)

// Text in scalars is no comment, and comments next to them are.
func TestCommentsAndScalars(t *testing.T) {
	for text, want := range map[string]int{
		"a: |\n  # note\n\n  x # note\nb: 1\n":                          0,
		"a: | # note\n  x\n# note\nb: 1\n":                              2,
		"a: |2\n    # note\n  # note\n # note\nb: 1\n":                  1,
		"a: |\n# note\nb: 1\n":                                          1,
		"l:\n- >-\n  x\n  # note\n- 1 # note\n":                         1,
		"a: 'it''s # note'\nb: \"\\\" # note\" # note\n":                1,
		"a: \"x\n  # note\n  y\" # note\n":                              1,
		"é: &a 'é # note'\nb: !!str \"x # note\"\n":                     0,
		"{\"a\": \" # note\"}\n":                                        0,
		"kind: ConfigMap\na: ' # note'\n---\nb: 1 # note\nc: ' # note'": 1,
	} {
		f := manifest.Parse("f", []byte(text), func(string, string) bool { return true })
		if got := f.Comments("note"); len(got) != want || len(f.Problems) > 0 {
			t.Errorf("%q: %+v, want %d %v", text, got, want, f.Problems)
		}
	}
}

func TestComments(t *testing.T) {
	const text = "#note a\n\n# other\nkind: Service # note b\n  #  note c\n  x: 'é' # note d\ny: z#note e\nn: 1 # a note f\n# note g"
	f := manifest.Parse("f", []byte(text), func(string, string) bool { return true })
	want := []manifest.Comment{
		{Line: 1, Column: 1, Of: 4, Text: "note a"},
		{Line: 4, Column: 15, Of: 4, Text: "note b"},
		{Line: 5, Column: 3, Of: 6, Text: "note c"},
		{Line: 6, Column: 10, Of: 6, Text: "note d"},
		{Line: 9, Column: 1, Of: 9, Text: "note g"},
	}
	if diff := cmp.Diff(want, f.Comments("note")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
