package ownership_test

import (
	"errors"
	"slices"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
)

func TestCreate(t *testing.T) {
	reused := &cloudapi.Error{Status: 422, Problem: &cloudv1.Problem{Code: cloudv1.CodeIdempotencyKeyReused}}
	gone := &cloudapi.Error{Status: 404, Problem: &cloudv1.Problem{Code: cloudv1.CodeResourceNotFound}}
	trouble := errors.New("trouble")
	for name, tc := range map[string]struct {
		create, confirm []error
		keys            int
		err             bool
	}{
		"at once":                   {create: []error{nil}, confirm: []error{nil}, keys: 1},
		"deleted since":             {create: []error{nil, nil}, confirm: []error{gone, nil}, keys: 2},
		"given away since":          {create: []error{nil, nil}, confirm: []error{ownership.ErrNotOurs, nil}, keys: 2},
		"another body before":       {create: []error{reused, nil}, confirm: []error{nil}, keys: 2},
		"create fails":              {create: []error{trouble}, keys: 1, err: true},
		"what came of it is unread": {create: []error{nil}, confirm: []error{trouble}, keys: 1, err: true},
	} {
		t.Run(name, func(t *testing.T) {
			var first []string
			for run := range 2 {
				var keys []string
				creations, confirmations := slices.Clone(tc.create), slices.Clone(tc.confirm)
				_, err := ownership.Create([]string{"load-balancer", "uid"},
					func(key string) (string, error) {
						keys = append(keys, key)
						err := creations[0]
						creations = creations[1:]
						return "lb-1", err
					},
					func(made string) (string, error) {
						err := confirmations[0]
						confirmations = confirmations[1:]
						return made, err
					})
				if (err != nil) != tc.err || len(keys) != tc.keys ||
					len(slices.Compact(slices.Sorted(slices.Values(keys)))) != tc.keys {
					t.Fatalf("keys %v, error %v; want %d different keys, error %t", keys, err, tc.keys, tc.err)
				}
				if run == 1 && !slices.Equal(keys, first) {
					t.Errorf("keys %v after a restart, before it %v", keys, first)
				}
				first = keys
			}
		})
	}
}

func TestCreateEnds(t *testing.T) {
	reused := &cloudapi.Error{Status: 422, Problem: &cloudv1.Problem{Code: cloudv1.CodeIdempotencyKeyReused}}
	_, err := ownership.Create([]string{"x"},
		func(string) (string, error) { return "", reused },
		func(string) (string, error) { return "", nil })
	if err == nil {
		t.Error("no error, though no key is left")
	}
}
