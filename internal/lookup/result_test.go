package lookup_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/lookup"
	"quaymaster.dev/test/harness/cloud"
)

// Every lookup is reported once, wherever the answer comes from.
func TestResultsAreTold(t *testing.T) {
	told := map[string]int{}
	f := start(
		t, lookup.Options{OnLookup: func(kind lookup.Kind, result lookup.Result) { told[string(kind)+" "+string(result)]++ }},
	)
	expect := func(when string, want map[string]int) {
		t.Helper()
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("%s: results (-want +got):\n%s", when, diff)
		}
		clear(told)
	}
	ask := func() {
		// Lookups without an answer are reported, and checked elsewhere.
		_, _ = f.Volume(t.Context(), "vol-data-1")
		_, _ = f.FreshVolume(t.Context(), "vol-data-1")
	}

	ask()
	expect("first", map[string]int{"volume miss": 2})
	ask()
	expect("again", map[string]int{"volume hit": 1, "volume miss": 1})
	for range 2 {
		_, _ = f.Volume(t.Context(), "vol-none")
	}
	expect("what does not exist", map[string]int{"volume hit": 1, "volume miss": 1})

	f.cloud.Intercept(cloud.Refuse(http.StatusServiceUnavailable, cloudv1.CodeUnavailable))
	f.pass(2 * time.Minute)
	ask()
	ask()
	expect("without a cloud", map[string]int{"volume unavailable": 4})
}
