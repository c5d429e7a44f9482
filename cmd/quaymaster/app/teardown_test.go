package app_test

import (
	"strings"
	"testing"
)

func TestUsageOfOperations(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"teardown without a cloud": {[]string{"teardown"}, []string{"--cloud-config: must name the cloud config file"}},
		"teardown, both ways": {
			[]string{"teardown", "--cloud-config=c", "--yes", "--dry-run=true"}, []string{"--dry-run, --yes: must not both be given"},
		},
		"teardown, half a wish": {[]string{"teardown", "--cloud-config=c", "--dry-run=false"}, []string{"--dry-run=false: say --yes to delete"}},
		"teardown of a cluster that is gone": {
			[]string{"teardown", "--cluster-uid=u", "--kubeconfig=k"},
			[]string{"--cloud-config: ", "--cluster-uid: needs --ignore-services", "--cluster-uid, --kubeconfig: must not both be given"},
		},
		"uninstall of nothing": {[]string{"uninstall"}, []string{"--mutating-webhook-configuration, --validating-webhook-configuration: one of them"}},
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
