package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/catalog/library"
	"quaymaster.dev/internal/tool/settings"
)

// problems reads a file and returns what is wrong with it, without the name of the file.
func problems(t *testing.T, text string) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), settings.Name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, found := settings.Read(name)
	if len(found) == 0 {
		found = f.Problems(library.BuiltIn())
	}
	var all []string
	for _, p := range found {
		all = append(all, strings.TrimPrefix(p.String(), name+":"))
	}
	return all
}

func TestProblems(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"empty":   {"", nil},
		"comment": {"# later\n", nil},
		"good": {
			"catalogs: [hcloud]\nunknownKeys: [warn]\nseverities: {hcloud-unknown-key: note}\n" +
				"ignores:\n- paths: [deploy/**]\n  ids: [manifest-invalid]\n  reason: old\n", nil,
		},
		"versions":    {"catalogs: [hcloud@1.30, alibaba]\n", nil},
		"no versions": {"catalogs:\n- hcloud@new\n", []string{`1: catalogs: must have a version such as 1.30 after hcloud@; got "new"`}},
		"fields": {
			"catalog: []\nignores:\n- reason: 5\n  ids: hcloud\n",
			[]string{
				`1: catalog: unknown field; did you mean "catalogs"?`,
				`3: ignores[0].reason: must be a string, not a number; quote it: "5"`,
				`4: ignores[0].ids: must be a list, not a string; correct the value`,
			},
		},
		"values": {
			"severities:\n  hcloud-unknown-kee: note\n  hcloud-unknown-key: fatal\nunknownKeys:\n- never\n" +
				"ignores:\n- ids: []\n- ids: [x-y]\n  reason: why\n  paths: ['[']\n",
			[]string{
				`2: severities[hcloud-unknown-kee]: unknown finding; did you mean "hcloud-unknown-key"?`,
				`3: severities[hcloud-unknown-key]: must be error, warning or note; got "fatal"`,
				`5: unknownKeys[0]: must be typos, error, warn or ignore; got "never"`,
				`7: ignores[0]: must have a reason`, `7: ignores[0]: must have ids of findings`,
				`8: ignores[1].ids[0]: unknown finding "x-y"`,
				`10: ignores[1].paths[0]: must be a pattern such as deploy/**/*.yaml; got "["`,
			},
		},
		"templates": {
			"templates:\n- {group: example.com, kind: Shop, annotations: 'spec.doors[].annotations', type: 'spec.doors[].kind', types: ['']}\n" +
				"- {group: example.com, kind: Shop}\n" +
				"- {group: example.com, kind: Shop, annotations: spec.annotations, class: 'spec.doors[].class', type: spec.type}\n" +
				"- {group: example.com, kind: Shop, annotations: spec.annotations, catalogs: [albb]}\n",
			[]string{
				`3: templates[1]: must have a group, a kind and the path of annotations`,
				`4: templates[2]: must have both type and types, or neither`,
				`4: templates[2]: must have no list in spec.doors[].class that is not in spec.annotations`,
				`5: templates[3].catalogs[0]: unknown catalog "albb"; did you mean "alb"?`,
			},
		},
		"two documents": {"catalogs: []\n---\ncatalogs: []\n", []string{"3: must have one YAML document"}},
		"twice":         {"catalogs: []\ncatalogs: []\n", []string{"2: catalogs: duplicate key, already set in line 1; remove one of them"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, problems(t, tc.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
