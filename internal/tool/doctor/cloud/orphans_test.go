package cloud

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/kubernetes/fake"

	"quaymaster.dev/internal/tool/doctor"
)

func TestOrphans(t *testing.T) {
	found := func(orphans []string, err error) func(context.Context) ([]string, error) {
		return func(context.Context) ([]string, error) { return orphans, err }
	}
	for name, tc := range map[string]struct {
		orphans func(context.Context) ([]string, error)
		level   doctor.Level
		details []string
	}{
		"without a cloud config": {nil, doctor.Skip, nil},
		"none":                   {found(nil, nil), doctor.OK, nil},
		"one":                    {found([]string{"lb-1"}, nil), doctor.Warn, []string{"lb-1"}},
		"unknown":                {found(nil, errors.New("no")), doctor.Warn, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := checks(fake.NewClientset())
			c.ListOrphans = tc.orphans
			got := c.Orphans(t.Context())
			if diff := cmp.Diff(tc.details, got.Details); diff != "" || got.Level != tc.level {
				t.Errorf("got %+v, want %s (-want +got):\n%s", got, tc.level, diff)
			}
		})
	}
}
