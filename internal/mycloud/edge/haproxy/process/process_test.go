package process

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"testing"

	"k8s.io/utils/clock"
)

// configuration returns one without listeners.
func configuration(structure string) *Configuration {
	return &Configuration{Text: []byte("global\n    description " + structure + "\nbackend none\n"), Structure: structure}
}

// start returns a HAProxy that runs a configuration.
func start(t *testing.T, structure string) *HAProxy {
	t.Helper()
	binary, err := exec.LookPath("haproxy")
	if err != nil {
		t.Skip("haproxy is not installed: tools/edge-packages.sh installs it")
	}
	h, err := New(Options{
		Dir: t.TempDir(), Binary: binary, Clock: clock.RealClock{},
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := h.Start(t.Context(), configuration(structure)); err != nil {
		t.Fatal(err)
	}
	return h
}

// A reload replaces the file for a moment, which must not look as if HAProxy had ended.
func TestPIDFileIsMissing(t *testing.T) {
	h := start(t, "one")
	pid := h.alive()
	if err := os.Remove(h.File(pidFile)); err != nil {
		t.Fatal(err)
	}
	if now := h.alive(); now != pid || pid == 0 {
		t.Errorf("process %d without the file, want %d", now, pid)
	}
}
