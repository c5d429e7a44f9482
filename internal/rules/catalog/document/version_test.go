package document

import (
	"strings"
	"testing"
)

func TestNotIn(t *testing.T) {
	const early, late = "controllers before v1.39.2 do not read it", "controllers from v2.1.0 on do not read it"
	for version, want := range map[string]string{
		"": "", "1.38": early, "v1.38.9": early, "1.39.1": early, "v1.9": early, "0": early,
		"1.39": "", "1.39.2": "", "1": "", "v1.100": "", "2.0.9": "", "v2.1": late, "2.1.0": late, "3": late, "2": "",
	} {
		a := Annotation{Since: "v1.39.2", Until: "v2.1.0"}
		if want != "" {
			want = "has no effect: " + want + ", and " + version + " is selected"
		}
		if got := a.NotIn(version); got != want {
			t.Errorf("%s: got %q, want %q", version, got, want)
		}
	}
}

func TestProblemsOfVersions(t *testing.T) {
	for versions, want := range map[string]string{
		"v1.2 v1.3": "", "v1.2.3": "", "": "", "latest": `versions such as v1.39.0; got "latest"`, "v1.2 v1.2": "until must be later", "v1.10.0 v1.9.0": "until must be later",
	} {
		since, until, _ := strings.Cut(versions, " ")
		p := &problems{}
		p.versions(&Annotation{Name: "example.com/key", Since: since, Until: until})
		if want == "" && len(p.found) > 0 || want != "" && (len(p.found) != 1 || !strings.Contains(p.found[0].Text, want)) {
			t.Errorf("%s: got %v, want %q", versions, p.found, want)
		}
	}
}
