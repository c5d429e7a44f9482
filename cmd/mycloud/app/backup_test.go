package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/cloudapi"
)

// TestBackupUnderWrites backs up a server while clients write. The restored state has everything that was acknowledged before
// the backup began.
func TestBackupUnderWrites(t *testing.T) {
	s := startServer(t, t.TempDir())
	c := s.client(t)
	create := func(name string) {
		if _, err := c.CreateNodeGroup(t.Context(), cloudv1.NodeGroupSpec{Name: name}, cloudapi.WriteOptions{}); err != nil {
			t.Error(err)
		}
	}
	const before = 20
	for i := range before {
		create(fmt.Sprintf("before-%d", i))
	}
	var writing sync.WaitGroup
	stop := make(chan struct{})
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				create(fmt.Sprintf("during-%d", i))
			}
		}
	})
	t.Setenv("MYCLOUD_TOKEN", s.token)
	backup, restored := filepath.Join(t.TempDir(), "backup.db"), t.TempDir()
	// The second one replaces the first one.
	for range 2 {
		if code, _, stderr := run(t, "backup", "--endpoint", s.endpoint, backup); code != 0 {
			t.Fatal(stderr)
		}
	}
	close(stop)
	writing.Wait()
	code, _, stderr := run(t, "restore", filepath.Join(s.dir, "state.db"), "--data-dir", restored)
	if code == 0 || !strings.Contains(stderr, "in use by another server") {
		t.Errorf("restore from the file of a server that runs: %d %s", code, stderr)
	}
	if err := s.kill(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{0, 1} {
		if code, _, stderr := run(t, "restore", backup, "--data-dir", restored); code != want {
			t.Errorf("restore ended with %d instead of %d: %s", code, want, stderr)
		}
	}
	c = startServer(t, restored).client(t)
	all, err := c.ListNodeGroups(t.Context(), cloudapi.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, g := range all.Items {
		if strings.HasPrefix(g.Name, "before-") {
			found++
		}
	}
	if found != before {
		t.Errorf("%d of %d objects were restored", found, before)
	}

	// What is damaged is refused.
	raw, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(backup, raw[:len(raw)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := run(t, "restore", backup, "--data-dir", t.TempDir()); code == 0 {
		t.Error("half a backup was restored")
	}
}
