package app_test

import (
	"strings"
	"testing"
)

func TestUsageOfTeardown(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"teardown without a cloud": {
			[]string{"teardown"}, []string{"--cloud-config is required: name the cloud config file"},
		},
		"teardown, dry run and yes": {
			[]string{"teardown", "--cloud-config=c", "--yes", "--dry-run=true"},
			[]string{"--dry-run must not be combined with --yes"},
		},
		"teardown, no dry run without yes": {
			[]string{"teardown", "--cloud-config=c", "--dry-run=false"}, []string{"--dry-run=false requires --yes"},
		},
		"teardown of a cluster that no longer exists": {
			[]string{"teardown", "--cluster-uid=u", "--kubeconfig=k"},
			[]string{"--cloud-config is required: ", "--cluster-uid requires --ignore-services",
				"--cluster-uid must not be combined with --kubeconfig or --context"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, tc.args...)
			if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, stdout %q, stderr %s", code, stdout, stderr)
			}
			for _, want := range tc.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr lacks %q:\n%s", want, stderr)
				}
			}
		})
	}
}
