package app_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestCloudID: with the id of a cloud, commands refuse any other, whether they read, write or back up.
func TestCloudID(t *testing.T) {
	s := startServer(t, t.TempDir())
	meta, err := s.client(t).Meta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MYCLOUD_ENDPOINT", s.endpoint)
	t.Setenv("MYCLOUD_TOKEN", s.token)
	for _, args := range [][]string{
		{"create", "token", "ci", "--role", "read"}, {"get", "tokens"}, {"backup", filepath.Join(t.TempDir(), "backup.db")},
	} {
		t.Setenv("MYCLOUD_CLOUD_ID", "another")
		code, _, stderr := run(t, args...)
		if code == 0 || !strings.Contains(stderr, "leads to cloud "+meta.ID+", not to another") {
			t.Errorf("%v at another cloud: %d %s", args, code, stderr)
		}
		if code, _, stderr = run(t, append(args, "--cloud-id", meta.ID)...); code != 0 {
			t.Errorf("%v at the cloud: %d %s", args, code, stderr)
		}
	}
}
