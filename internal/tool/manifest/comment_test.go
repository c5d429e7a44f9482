package manifest_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/tool/manifest"
)

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
