package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"quaymaster.dev/internal/tool/lint"
	"quaymaster.dev/internal/tool/manifest"
)

// tree writes a thousand manifests, each with a Deployment and a Service with a typo, to one directory per team.
func tree(b *testing.B) string {
	b.Helper()
	root := b.TempDir()
	text, err := os.ReadFile("testdata/shop.yaml")
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		folder := filepath.Join(root, fmt.Sprintf("team-%d", i%20))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("shop-%d.yaml", i)), text, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return root
}

// The linter runs before every commit, so its run time matters.
func BenchmarkThousandManifests(b *testing.B) {
	root := tree(b)
	reviewer := lint.NewReviewer(lint.ReviewerOptions{})
	for b.Loop() {
		names, problems := manifest.Names([]string{root}, true)
		files := manifest.Read(names, nil, lint.Wanted)
		results, _ := (&lint.Linter{}).Files(files, reviewer)
		if len(problems) > 0 || len(results) != 1000 || len(results[0].Findings) != 1 {
			b.Fatalf("%v, %d results", problems, len(results))
		}
	}
}
