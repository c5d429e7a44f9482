package app_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/cmd/quayctl/app"
	"quaymaster.dev/internal/tool/doctor"
)

func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = app.Run(t.Context(), append([]string{"quayctl"}, args...), &out, &err)
	return code, out.String(), err.String()
}

func TestUsageMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"unknown command": {
			[]string{"docter"}, `quayctl: unknown command "docter"; did you mean "doctor"?; see "quayctl --help"`,
		},
		"probe": {[]string{"probe"}, `quayctl probe: set --namespace, --lease or both; see "quayctl probe --help"`},
		"argument": {
			[]string{"doctor", "now"}, `quayctl doctor: unknown argument "now"; see "quayctl doctor --help"`,
		},
		"several": {
			[]string{"doctor", "-n", "A", "--release=b.c", "--release-namespace=D", "-o", "yaml"},
			`quayctl doctor: --namespace must be a DNS label such as shop; got "A"; --release-namespace must be a DNS ` +
				`label such as quaymaster-system; got "D"; --release must be a DNS label such as quaymaster; got "b.c"; ` +
				`--output must be text or json; got "yaml"; see "quayctl doctor --help"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, tc.args...)
			if code != 2 || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			if diff := cmp.Diff(tc.want+"\n", stderr); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoKubeconfig(t *testing.T) {
	code, stdout, stderr := run(t, "doctor", "--kubeconfig=/absent")
	if code != 1 || stdout != "" ||
		!strings.HasPrefix(stderr, "quayctl doctor: --kubeconfig, --context: no usable cluster configuration: ") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

// Without an API server, one check fails and the checks that need it are skipped.
func TestNoAPIServer(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := run(t, "doctor", "--kubeconfig="+kubeconfig, "-o", "json")
	if code != 1 || stderr != "quayctl doctor: 1 of 20 checks failed: api-server\n" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	var report struct {
		OK     bool
		Checks []doctor.Result
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	if report.OK {
		t.Error("the report is ok")
	}
	for i, r := range report.Checks {
		if (r.Level == doctor.Skip) != (i > 0) {
			t.Errorf("%+v, want all but the first skipped", r)
		}
	}

	_, stdout, _ = run(t, "doctor", "--kubeconfig="+kubeconfig)
	lines := strings.Split(stdout, "\n")
	const first = "fail  api-server              no response: "
	if !strings.HasPrefix(lines[0], first) ||
		!strings.HasPrefix(lines[1], strings.Repeat(" ", 30)+"fix: correct --kubeconfig") ||
		!strings.HasPrefix(lines[2], "skip  release, crds, ") {
		t.Errorf("text is\n%s", stdout)
	}
}
