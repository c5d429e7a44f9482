package selection

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"quaymaster.dev/internal/rules/finding"
)

func TestUnknownKeys(t *testing.T) {
	catalogs := []string{"mycloud", "hcloud"}
	got, errs := UnknownKeys([]string{"ignore", "hcloud=deny"}, catalogs)
	want := map[string]finding.Severity{"": finding.Audit, "hcloud": finding.Error}
	if diff := cmp.Diff(want, got); diff != "" || len(errs) > 0 {
		t.Errorf("%v (-want +got):\n%s", errs, diff)
	}
	if got, _ := UnknownKeys(nil, catalogs); got[""] != finding.Warning {
		t.Errorf("by default %v", got)
	}
	for entry, want := range map[string]string{
		"never": "must be deny, warn or ignore", "azure=warn": "must name catalogs that are selected", "mycloud=warn": "always denies",
	} {
		if _, errs := UnknownKeys([]string{entry}, catalogs); len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: %v, want %q", entry, errs, want)
		}
	}
}

func TestReviewer(t *testing.T) {
	for args, want := range map[string]int{"": 0, "--catalogs=hcloud --unknown-keys=hcloud=deny": 0, "--catalogs=x --unknown-keys=y": 2} {
		f := &Flags{}
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.AddFlags(fs)
		if err := fs.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if _, errs := f.Reviewer("example.com/lb", true); len(errs) != want {
			t.Errorf("%s: %v, want %d problems", args, errs, want)
		}
	}
}
