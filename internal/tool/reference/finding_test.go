package reference_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/tool/reference"
)

func TestFindFinding(t *testing.T) {
	for id, want := range map[string]reference.Finding{
		"dlb-unknown-key":  {Severity: finding.Error, About: "Services of type LoadBalancer of mycloud", Page: "docs/reference/annotations.md#dlb-unknown-key"},
		"manifest-invalid": {Severity: finding.Error, About: "Manifests, before any cluster sees them", Page: "docs/reference/findings.md#manifest-invalid"},
		// The name of another catalog is a prefix of this one's.
		"aws-lbc-not-owned": {
			Severity: finding.Warning, About: "Services of type LoadBalancer of AWS Load Balancer Controller", Page: "docs/reference/catalogs/aws-lbc.md#aws-lbc-not-owned",
		},
	} {
		got, found := reference.FindFinding(id)
		if !found || got.Help == "" {
			t.Errorf("%s: found %t, help %q", id, found, got.Help)
		}
		want.ID, want.Help = id, got.Help
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	if f, found := reference.FindFinding("hcloud-no-such"); found {
		t.Errorf("found %+v", f)
	}
}

// Programs link to these sections: each must exist exactly once.
func TestFindingsHavePages(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range reference.Findings() {
		if seen[f.ID] {
			t.Errorf("%s occurs twice", f.ID)
		}
		seen[f.ID] = true
		page, anchor, _ := strings.Cut(f.Page, "#")
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", page))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(raw), "\n### "+anchor+"\n"); n != 1 {
			t.Errorf("%s has %d sections %s", page, n, anchor)
		}
	}
	if len(seen) < 100 {
		t.Errorf("there are only %d findings", len(seen))
	}
}
