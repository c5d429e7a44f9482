package app_test

import (
	"strings"
	"testing"

	"quaymaster.dev/test/builder"
)

// TestAuditHTML: the page has the findings of a cluster, with their objects and remedies.
func TestAuditHTML(t *testing.T) {
	svc := builder.Service(builder.DLB("listener-maxqps", "fast"))
	flags, _ := planFlags(t, svc)
	code, page, stderr := run(t, "audit", flags[0], flags[1], "-o", "html")
	if code != 1 || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for _, want := range []string{
		"<h1>Findings in the cluster</h1>", "1 error in 1 of 2 objects", "Service shop/web", `data-severity="error" data-id="dlb-invalid-value"`, "Remedy: ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
}
