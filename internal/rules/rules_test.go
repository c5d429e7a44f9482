package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules"
)

func finding(change func(*rules.Finding)) rules.Finding {
	f := rules.Finding{
		ID: "x", Severity: rules.Error, Type: field.ErrorTypeInvalid, Field: "spec.ports[0].port", Value: "1",
		Message: "must be 2", Remedy: "write 2",
	}
	if change != nil {
		change(&f)
	}
	return f
}

func TestRatchet(t *testing.T) {
	base := finding(nil)
	tests := map[string]struct {
		current rules.Finding
		lowered bool
	}{
		"same":           {base, true},
		"other index":    {finding(func(f *rules.Finding) { f.Field = "spec.ports[7].port" }), true},
		"other wording":  {finding(func(f *rules.Finding) { f.Message = "must be 3" }), true},
		"other rule":     {finding(func(f *rules.Finding) { f.ID = "y" }), false},
		"other field":    {finding(func(f *rules.Finding) { f.Field = "spec.ports[0].name" }), false},
		"other value":    {finding(func(f *rules.Finding) { f.Value = "3" }), false},
		"other listener": {finding(func(f *rules.Finding) { f.Listeners = []string{"tcp/80"} }), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := rules.Ratchet([]rules.Finding{base}, []rules.Finding{test.current})
			if len(got) != 1 || (got[0].Severity == rules.Warning) != test.lowered || got[0].Old != test.lowered {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestMergeNamesEveryListener(t *testing.T) {
	on := func(listener string) rules.Finding {
		return finding(func(f *rules.Finding) { f.Listeners = []string{listener} })
	}
	got := rules.Merge([]rules.Finding{on("tcp/80"), on("tcp/443"), finding(func(f *rules.Finding) { f.Field = "a" })})
	want := []rules.Finding{
		finding(func(f *rules.Finding) { f.Field = "a" }),
		finding(func(f *rules.Finding) { f.Listeners = []string{"tcp/80", "tcp/443"} }),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestInvalidStatus(t *testing.T) {
	findings := []rules.Finding{
		finding(nil),
		finding(func(f *rules.Finding) { f.Field, f.Type, f.Value = "b", field.ErrorTypeRequired, "" }),
		finding(func(f *rules.Finding) { f.Severity = rules.Warning }),
	}
	got := rules.InvalidStatus(schema.GroupKind{Kind: "Service"}, "web", findings)
	want := &metav1.Status{
		Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
		Message: `Service "web" is invalid: [spec.ports[0].port: Invalid value: "1": must be 2; write 2, b: Required value: must be 2; write 2]`,
		Details: &metav1.StatusDetails{Kind: "Service", Name: "web", Causes: []metav1.StatusCause{
			{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.ports[0].port", Message: `Invalid value: "1": must be 2; write 2`},
			{Type: metav1.CauseTypeFieldValueRequired, Field: "b", Message: "Required value: must be 2; write 2"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if summary := rules.Summary(findings); !strings.HasSuffix(got.Message, summary) || summary == "" {
		t.Errorf("summary %q is not the status' message", summary)
	}
}

func TestLongValuesAreCut(t *testing.T) {
	long := finding(func(f *rules.Finding) { f.Value = strings.Repeat("ü", 10_000) })
	if summary := rules.Summary([]rules.Finding{long}); len(summary) > 500 || !strings.Contains(summary, "…") {
		t.Errorf("summary of %d bytes", len(summary))
	}
}

func TestManyProblemsAreCut(t *testing.T) {
	var findings []rules.Finding
	for i := range 5000 {
		findings = append(findings, finding(func(f *rules.Finding) { f.Field = fmt.Sprintf("f%d", i) }))
	}
	status := rules.InvalidStatus(schema.GroupKind{Kind: "Service"}, "web", findings)
	if got := len(status.Details.Causes); got != 101 {
		t.Errorf("%d causes", got)
	}
	if want := "metadata: Forbidden: 4900 more problems, shown when these are solved]"; !strings.HasSuffix(status.Message, want) {
		t.Errorf("the message ends with %q", status.Message[len(status.Message)-100:])
	}
}
