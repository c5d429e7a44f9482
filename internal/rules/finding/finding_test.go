package finding_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quaymaster.dev/internal/rules/finding"
)

func sample(change func(*finding.Finding)) finding.Finding {
	f := finding.Finding{
		ID: "x", Check: "x", Subject: "spec.ports.port", Severity: finding.Error, Type: field.ErrorTypeInvalid,
		Field: "spec.ports[0].port", Value: "1", Message: "must be 2", Remedy: "write 2",
	}
	if change != nil {
		change(&f)
	}
	return f
}

func TestRatchet(t *testing.T) {
	base := sample(nil)
	warned := sample(func(f *finding.Finding) { f.Severity = finding.Warning })
	anonymous := sample(func(f *finding.Finding) { f.Check = "" })
	noSubject := sample(func(f *finding.Finding) { f.Subject = "" })
	otherField := sample(func(f *finding.Finding) { f.Subject, f.Field = "", "spec.ports[7].port" })
	tests := map[string]struct {
		old, current finding.Finding
		lowered      bool
	}{
		"same":             {base, base, true},
		"other index":      {base, sample(func(f *finding.Finding) { f.Field = "spec.ports[7].port" }), true},
		"other wording":    {base, sample(func(f *finding.Finding) { f.Message = "must be 3" }), true},
		"a warning before": {warned, base, false},
		"other check":      {base, sample(func(f *finding.Finding) { f.Check = "y" }), false},
		"unknown check":    {anonymous, anonymous, false},
		"other catalog":    {base, sample(func(f *finding.Finding) { f.Catalog = "y" }), false},
		"other subject":    {base, sample(func(f *finding.Finding) { f.Subject = "spec.ports.name" }), false},
		"same field":       {noSubject, noSubject, true},
		"other field":      {noSubject, otherField, false},
		"other value":      {base, sample(func(f *finding.Finding) { f.Value = "3" }), false},
		"other listener":   {base, sample(func(f *finding.Finding) { f.Listeners = []string{"tcp/80"} }), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := finding.Ratchet([]finding.Finding{test.old}, []finding.Finding{test.current})
			if len(got) != 1 || (got[0].Severity == finding.Warning) != test.lowered || got[0].Old != test.lowered {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestMergeNamesEveryListener(t *testing.T) {
	on := func(listener string) finding.Finding {
		return sample(func(f *finding.Finding) { f.Listeners = []string{listener} })
	}
	got := finding.Merge(
		[]finding.Finding{on("tcp/80"), on("tcp/443"), sample(func(f *finding.Finding) { f.Field = "a" })},
	)
	want := []finding.Finding{
		sample(func(f *finding.Finding) { f.Field = "a" }),
		sample(func(f *finding.Finding) { f.Listeners = []string{"tcp/80", "tcp/443"} }),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestInvalidStatus(t *testing.T) {
	findings := []finding.Finding{
		sample(nil),
		sample(func(f *finding.Finding) { f.Field, f.Type, f.Value = "b", field.ErrorTypeRequired, "" }),
		sample(func(f *finding.Finding) { f.Severity = finding.Warning }),
	}
	got := finding.InvalidStatus(schema.GroupKind{Kind: "Service"}, "web", findings)
	want := &metav1.Status{
		Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
		Message: `Service "web" is invalid: [spec.ports[0].port: Invalid value: "1": must be 2; write 2, b: Required ` +
			`value: must be 2; write 2]`,
		Details: &metav1.StatusDetails{Kind: "Service", Name: "web", Causes: []metav1.StatusCause{
			{
				Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.ports[0].port",
				Message: `Invalid value: "1": must be 2; write 2`,
			},
			{Type: metav1.CauseTypeFieldValueRequired, Field: "b", Message: "Required value: must be 2; write 2"},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if summary := finding.Summary(findings); !strings.HasSuffix(got.Message, summary) || summary == "" {
		t.Errorf("summary %q differs from the status message", summary)
	}
}

// The status is the one that the API server's own validation would return.
func TestInvalidStatusIsThatOfKubernetes(t *testing.T) {
	kind := schema.GroupKind{Group: "example.com", Kind: "Thing"}
	for _, typ := range []field.ErrorType{
		field.ErrorTypeInvalid, field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeForbidden, field.ErrorTypeTooMany, field.ErrorTypeTooLong,
		field.ErrorTypeDuplicate, field.ErrorTypeNotFound,
	} {
		one := sample(func(f *finding.Finding) {
			f.Type, f.Value, f.Listeners = typ, "a\n\"<b>\x00ü", []string{"tcp/80", "tcp/443"}
		})
		other := sample(func(f *finding.Finding) { f.Type, f.Value, f.Remedy, f.Field = typ, "", "", "metadata.annotations[a]" })
		for _, findings := range [][]finding.Finding{{one}, {one, other}, {one, one}, {one, other, one}} {
			var list field.ErrorList
			for _, f := range findings {
				detail := f.Problem()
				if f.Remedy != "" {
					detail += "; " + f.Remedy
				}
				list = append(list, &field.Error{Type: f.Type, Field: f.Field, BadValue: f.Value, Detail: detail})
			}
			want := apierrors.NewInvalid(kind, "a\"b", list).Status()
			if diff := cmp.Diff(&want, finding.InvalidStatus(kind, "a\"b", findings)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", typ, diff)
			}
		}
	}
}

func TestLongValuesAreTruncated(t *testing.T) {
	long := sample(func(f *finding.Finding) { f.Value = strings.Repeat("ü", 10_000) })
	if summary := finding.Summary([]finding.Finding{long}); len(summary) > 500 || !strings.Contains(summary, "…") {
		t.Errorf("summary has %d bytes", len(summary))
	}
}

func TestManyProblemsAreTruncated(t *testing.T) {
	var findings []finding.Finding
	for i := range 5000 {
		findings = append(findings, sample(func(f *finding.Finding) { f.Field = fmt.Sprintf("f%d", i) }))
	}
	status := finding.InvalidStatus(schema.GroupKind{Kind: "Service"}, "web", findings)
	if got := len(status.Details.Causes); got != 101 {
		t.Errorf("got %d causes, want 101", got)
	}
	const want = "metadata: Forbidden: 4900 more problems are reported once these are fixed]"
	if !strings.HasSuffix(status.Message, want) {
		t.Errorf("the message ends with %q", status.Message[len(status.Message)-100:])
	}
}
