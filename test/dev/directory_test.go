package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func openFor(t *testing.T, path string, keep bool) *directory {
	t.Helper()
	d, err := open(t.Context(), path, keep, 0, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDirectoryIsLocked(t *testing.T) {
	path := t.TempDir()
	first := openFor(t, path, false)
	_, err := open(t.Context(), path, false, 0, t.Output())
	if want := "(process " + strconv.Itoa(os.Getpid()) + ")"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("second open: %v, want an error with %q", err, want)
	}
	if err := first.close(); err != nil {
		t.Fatal(err)
	}
	if err := openFor(t, path, false).close(); err != nil {
		t.Error(err)
	}
}

func TestRunsStartClean(t *testing.T) {
	for name, keep := range map[string]bool{"state is removed": false, "state is kept": true} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			for _, file := range []string{"ready", "env", "kubeconfig", "state/etcd/data"} {
				file = filepath.Join(path, file)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d := openFor(t, path, keep)
			defer d.close()
			for _, file := range []string{d.ready(), d.env(), d.kubeconfig()} {
				if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s of the last run still exists: %v", file, err)
				}
			}
			if _, err := os.Stat(d.state()); (err == nil) != keep {
				t.Errorf("state of the last run: %v, want it kept: %t", err, keep)
			}
		})
	}
}

func TestEnvIsQuotedForTheShell(t *testing.T) {
	d := openFor(t, filepath.Join(t.TempDir(), "it's $HOME"), false)
	defer d.close()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte("apiVersion: v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.publish(kubeconfig, "http://127.0.0.1:1", "secret"); err != nil {
		t.Fatal(err)
	}
	script := `. "$1" && printf '%s|%s|%s|%s' "$KUBECONFIG" "$MYCLOUD_ENDPOINT" "$MYCLOUD_TOKEN" "$PATH"`
	out, err := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", d.env()).Output()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(filepath.Dir(d.path), "bin")
	want := d.kubeconfig() + "|http://127.0.0.1:1|secret|" + bin + ":" + filepath.Join(bin, "tools") + ":" + os.Getenv("PATH")
	if string(out) != want {
		t.Errorf("the shell reads %q, want %q", out, want)
	}
}
