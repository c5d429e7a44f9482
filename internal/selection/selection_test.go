package selection

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"quaymaster.dev/internal/rules/catalog"
)

func TestUnknownKeys(t *testing.T) {
	catalogs := []string{"mycloud", "hcloud"}
	got, errs := UnknownKeys([]string{"ignore", "hcloud=error"}, catalogs)
	want := map[string]catalog.UnknownKeys{"": catalog.UnknownIgnore, "hcloud": catalog.UnknownError}
	if diff := cmp.Diff(want, got); diff != "" || len(errs) > 0 {
		t.Errorf("%v (-want +got):\n%s", errs, diff)
	}
	for entry, want := range map[string]string{
		"never": "must be typos, error, warn or ignore", "azure=warn": "must name catalogs that are selected", "mycloud=warn": "always errors",
	} {
		if _, errs := UnknownKeys([]string{entry}, catalogs); len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: %v, want %q", entry, errs, want)
		}
	}
}

func TestReviewer(t *testing.T) {
	for args, want := range map[string]int{"": 0, "--catalogs=hcloud --unknown-keys=hcloud=error": 0, "--catalogs=x --unknown-keys=y": 2, "--catalogs=alb": 0} {
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
