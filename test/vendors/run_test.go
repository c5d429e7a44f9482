package vendors

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/internal/rules/annotation"
	"quaymaster.dev/internal/rules/catalog/document"
	"quaymaster.dev/internal/rules/catalog/library"
)

// controller is a small controller whose code judges. Its catalog is almost right.
type controller struct{}

func (controller) Judge(services []*corev1.Service) ([]Verdict, error) {
	return all(services, func(svc *corev1.Service) Verdict {
		if err := ensure(svc); err != nil {
			return Verdict{Error: err.Error()}
		}
		return Verdict{}
	}), nil
}

func ensure(svc *corev1.Service) error {
	if text, set := svc.Annotations["example.com/size"]; set {
		size, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		if size < 1 || size > 9 { // the catalog says 10
			return errors.New("size " + text + " is out of range")
		}
	}
	if text, set := svc.Annotations["example.com/internal"]; set {
		if _, err := strconv.ParseBool(text); err != nil {
			return err
		}
	}
	return nil
}

func catalogOf(t *testing.T) *library.Library {
	t.Helper()
	invalid := "x"
	entry := func(name string, of annotation.Type, valid string) document.Annotation {
		return document.Annotation{
			Name: "example.com/" + name, Help: "Is for a test.", Type: of, OnInvalid: document.Refused, Source: []string{"this test"},
			Valid: valid, Invalid: &invalid,
		}
	}
	d := document.Document{
		Head: document.Head{
			Name: "example", Title: "Example", Controller: "example.com/controller", Version: "v1", Date: "2026-01-01", Help: "Is for a test.",
			Prefixes: []string{"example.com/"}, Owns: document.Ownership{NoClass: true, AnyClass: true},
		},
		Body: document.Body{Annotations: []document.Annotation{
			entry("size", annotation.Type{Type: annotation.Int, Rule: "min=1,max=10"}, "3"),
			entry("internal", annotation.Type{Type: annotation.Bool}, "true"),
			entry("domain", annotation.Type{Type: annotation.Text, Rule: "dnsname"}, "example.com"), // which only the cloud checks
		}},
	}
	if problems := d.Problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
	return library.BuiltIn().With(d)
}

func compareExample(t *testing.T, explanations Explanations) *Report {
	t.Helper()
	l := catalogOf(t)
	comparison, err := NewComparison(l, "example", explanations)
	if err != nil {
		t.Fatal(err)
	}
	c, _ := l.Find("example")
	report, err := Run(NewGenerator(c, 1), comparison, controller{}, 2000)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestDifferencesAreMinimal(t *testing.T) {
	report := compareExample(t, nil)
	got := map[string]map[string]string{}
	for _, d := range report.Differences {
		got[d.outcome.verdict.String()] = d.svc.Annotations
		if len(d.svc.Spec.Ports) != 1 || d.Cases == 0 {
			t.Errorf("not minimal: %+v", d)
		}
	}
	want := map[string]map[string]string{
		"refuses it: size 10 is out of range": {"example.com/size": "10"},
		"accepts it":                          {"example.com/domain": ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if report.Cases != 2000 || report.Agree+report.Different != 2000 || report.Different < 20 || report.Refused < 100 {
		t.Errorf("got %+v", report)
	}
	var text strings.Builder
	if err := report.Write(&text); err != nil || !strings.Contains(text.String(), `example.com/size: "10"`) {
		t.Errorf("got %s, %v", text.String(), err)
	}
}

// TestWarnings: of what the vendor's code only warns of, the catalog must find something.
func TestWarnings(t *testing.T) {
	comparison, err := NewComparison(catalogOf(t), "example", Explanations{{Vendor: "known", Why: "For a test.", Source: []string{"this test"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		size    string
		warning string
		want    result
	}{
		"nothing found":      {"3", "odd", different},
		"explained":          {"3", "known", explained},
		"unknown annotation": {"", "odd", agree},
		"refused":            {"x", "odd", different},
	} {
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
		svc.Annotations = map[string]string{"example.com/size": test.size}
		if test.size == "" {
			svc.Annotations = map[string]string{"example.com/sice": "3"}
		}
		if o := comparison.compare(svc, Verdict{Warning: test.warning}); o.result != test.want {
			t.Errorf("%s: got %d, want %d", name, o.result, test.want)
		}
	}
}

func TestExplanations(t *testing.T) {
	explanations := Explanations{
		{Finding: "example-invalid-value", Field: "example.com/domain", Why: "The cloud checks it.", Source: []string{"this test"}},
		{Vendor: "size .* out of range", Why: "For a test.", Source: []string{"this test"}},
		{Vendor: "no such error", Why: "It explains nothing.", Source: []string{"this test"}},
	}
	report := compareExample(t, explanations)
	if report.Different != 0 || report.Explained == 0 || report.Agree+report.Explained != report.Cases {
		t.Errorf("got %+v", report)
	}
	if diff := cmp.Diff([]string{"no such error"}, explanations.Unused()); diff != "" {
		t.Error(diff)
	}
}

// TestConditionsOfExplanations: with Set, Unset or With, an explanation is only for some Services.
func TestConditionsOfExplanations(t *testing.T) {
	for name, test := range map[string]struct {
		explanation Explanation
		explains    bool
	}{
		"annotation":         {Explanation{Set: map[string]string{"example.com/domain": ".*"}}, true},
		"missing annotation": {Explanation{Set: map[string]string{"example.com/other": ".*"}}, false},
		"no annotation":      {Explanation{Unset: []string{"example.com/other"}}, true},
		"other annotation":   {Explanation{Unset: []string{"example.com/domain"}}, false},
		"finding":            {Explanation{With: "example-invalid-value"}, true},
		"missing finding":    {Explanation{With: "example-other"}, false},
		"finding of a key":   {Explanation{With: `example-invalid-value example\.com/domain`}, true},
		"of no such key":     {Explanation{With: `example-invalid-value example\.com/other`}, false},
		"with a value":       {Explanation{With: `example-invalid-value example\.com/domain: \s*`}, true},
		"with another value": {Explanation{With: `example-invalid-value example\.com/domain: never generated`}, false},
		"value":              {Explanation{Value: ".*"}, true},
		"other value":        {Explanation{Value: "never generated"}, false},
	} {
		e := test.explanation
		e.Finding, e.Why, e.Source = "example-invalid-value", "For a test.", []string{"this test"}
		if report := compareExample(t, Explanations{&e}); (report.Explained > 0) != test.explains {
			t.Errorf("%s: explained %d", name, report.Explained)
		}
	}
}

func TestReadExplanations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "explanations.yaml")
	if all, err := ReadExplanations(file); err != nil || all != nil {
		t.Errorf("without a file: %v, %v", all, err)
	}
	for name, text := range map[string]string{
		"no why":        "- {vendor: a, source: [b]}",
		"no source":     "- {vendor: a, why: b}",
		"both":          "- {vendor: a, finding: b, why: b, source: [b]}",
		"no expression": "- {vendor: '(', why: b, source: [b]}",
		"unknown field": "- {vendor: a, reason: b, source: [b]}",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadExplanations(file); err == nil {
			t.Error(name)
		}
	}
}

// TestExplanationsOfVendors: those of all judges can be read.
func TestExplanationsOfVendors(t *testing.T) {
	files, err := filepath.Glob("../../tools/vendors/*/explanations.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if _, err := ReadExplanations(file); err != nil {
			t.Error(err)
		}
	}
}
