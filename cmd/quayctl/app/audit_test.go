package app_test

import (
	"strings"
	"testing"

	"quaymaster.dev/test/builder"
)

// The annotations of tenants hide findings only if the auditor lets them.
func TestAuditNoIgnores(t *testing.T) {
	svc := builder.Service(builder.DLB("listener-maxqps", "fast"), builder.Annotation("ignore.quaymaster.dev/dlb-invalid-value", "hidden"))
	flags, _ := planFlags(t, svc)
	if code, _, stderr := run(t, "audit", flags[0], flags[1]); code != 0 || !strings.Contains(stderr, "ignored 1 finding") {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if code, stdout, stderr := run(t, "audit", flags[0], flags[1], "--no-ignores"); code != 1 || !strings.Contains(stdout, "dlb-invalid-value") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

// TestAuditHTML: the page has the findings of a cluster, with their objects and remedies.
func TestAuditHTML(t *testing.T) {
	svc := builder.Service(builder.DLB("listener-maxqps", "fast"))
	flags, _ := planFlags(t, svc)
	code, page, stderr := run(t, "audit", flags[0], flags[1], "-o", "html")
	if code != 1 || stderr != "" {
		t.Fatalf("exit code %d, stderr %q", code, stderr)
	}
	for _, want := range []string{
		"<h1>Findings in the cluster</h1>", "1 error in 1 of 1 Service", "Service shop/web", `data-severity="error" data-id="dlb-invalid-value"`, "Remedy: ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
}
