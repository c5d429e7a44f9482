package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quaymaster.dev/test/harness/cloud"
)

// What a cloud or an API server answers to mistakes is an error with a remedy, for all commands alike.
func TestRemedies(t *testing.T) {
	c, server := cloud.Start(t, 0), clusterWith(t, sharedUID)
	write := func(name, content string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	config := func(endpoint, token string) string {
		return write("cloud.yaml", "clusterID: new\nendpoint: "+endpoint+"\ntokenFile: "+write("token", token)+"\n")
	}
	good, wrong, down := c.Config(t, "new"), config(c.Endpoint, "wrong"), config("http://127.0.0.1:1", "x")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"migrate from a typo":          {[]string{"migrate", "--from=typo", "--cloud-config=" + good}, `never had a cluster with the UID "typo"; set --from to`},
		"takeover with a wrong token":  {[]string{"takeover", "--cloud-config=" + wrong}, "correct the file that tokenFile of the cloud config names"},
		"plan with a wrong token":      {[]string{"plan", "--cloud-config=" + wrong}, "correct the file that tokenFile of the cloud config names"},
		"takeover of a cloud off line": {[]string{"takeover", "--cloud-config=" + down}, "check that 127.0.0.1:1 is the right address"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append(tc.args, "--kubeconfig="+server.Kubeconfig(t))...)
			if code != 1 || !strings.Contains(stderr, tc.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit code %d, want %q in\n%s%s", code, tc.want, stdout, stderr)
			}
		})
	}
}
