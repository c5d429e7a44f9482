package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
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

// What HAProxy runs is not checked again, unless something that is new refers to it; what is new is.
func TestCheckOfChanges(t *testing.T) {
	h := start(t, "one")
	frontend := func(name, backend string) string {
		return fmt.Sprintf("\nfrontend %s\n    timeout client 1s\n    bind 127.0.0.1:1\n    default_backend %s\n", name, backend)
	}
	const backend = "\nbackend %s\n    timeout server 1s\n    timeout connect 1s\n    server s 127.0.0.1:2%s\n"
	global := "global\n    description "
	running := fmt.Sprintf(backend+backend, "a", "", "b", "") + frontend("to-a", "a") + frontend("to-b", "b")
	if err := h.Write(configFile, []byte(global+"one\n"+running)); err != nil {
		t.Fatal(err)
	}
	next := &Configuration{Structure: "two", Text: []byte(global + "two\n" + running + frontend("more", "b") + fmt.Sprintf(backend, "bad", " nonsense"))}
	for runs, checked := range map[string][]string{
		"one":       {"", "b", "more", "bad"},
		"":          {"", "a", "b", "to-a", "to-b", "more", "bad"},
		"any other": {"", "a", "b", "to-a", "to-b", "more", "bad"},
	} {
		refused, err := h.Check(t.Context(), next, runs)
		if err != nil || len(refused) != 1 || refused["bad"] == nil {
			t.Errorf("refused %v, error %v, want bad", refused, err)
		}
		text, err := os.ReadFile(h.File(candidateFile))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, s := range sections(string(text)) {
			names = append(names, s.name)
		}
		if !slices.Equal(names, checked) {
			t.Errorf("with %q running, %q are checked, want %q", runs, names, checked)
		}
	}
}
