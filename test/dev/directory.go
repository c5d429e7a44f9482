package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"quaymaster.dev/test/harness/process"
)

// directory, .dev by default, contains the files of a demonstration for its users and for the next run.
type directory struct {
	path string
	lock *os.File
}

// open acquires the directory for this run: it waits up to patience for a run that is terminating, kills the processes
// that a killed run left behind and removes its state, unless keep is set.
func open(ctx context.Context, path string, keep bool, patience time.Duration, out io.Writer) (*directory, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d := &directory{path: path}
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return nil, err
	}
	if err := d.acquire(ctx, patience); err != nil {
		return nil, err
	}
	killed, err := process.Reap(d.pids())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("clean up after the last run: %w", err), d.close())
	}
	if len(killed) > 0 {
		fmt.Fprintf(out, "killed the remaining processes of a killed run: %s\n", strings.Join(killed, ", "))
	}
	stale := []string{d.ready(), d.env(), d.kubeconfig(), d.pids()}
	if !keep {
		stale = append(stale, d.state())
	}
	for _, path := range stale {
		if err := os.RemoveAll(path); err != nil {
			return nil, errors.Join(fmt.Errorf("clean up after the last run: %w", err), d.close())
		}
	}
	return d, nil
}

// acquire locks the directory. The kernel releases the lock when the process terminates, however that happens.
func (d *directory) acquire(ctx context.Context, patience time.Duration) error {
	path := filepath.Join(d.path, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) {
			owner, _ := os.ReadFile(path) // only for the message
			file.Close()
			return fmt.Errorf("a demonstration is already running in %s (process %s); stop it, or use it through %s",
				d.path, strings.TrimSpace(string(owner)), d.env())
		}
		select {
		case <-ctx.Done():
			file.Close()
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	d.lock = file
	if err := file.Truncate(0); err != nil {
		return fmt.Errorf("lock %s: %w", d.path, err)
	}
	if _, err := file.WriteAt(ownPID(), 0); err != nil {
		return fmt.Errorf("lock %s: %w", d.path, err)
	}
	return nil
}

// publish writes the files that users of the demonstration read.
func (d *directory) publish(kubeconfig, endpoint, token string) error {
	data, err := os.ReadFile(kubeconfig)
	if err != nil {
		return fmt.Errorf("publish kubeconfig: %w", err)
	}
	if err := os.WriteFile(d.kubeconfig(), data, 0o600); err != nil {
		return fmt.Errorf("publish kubeconfig: %w", err)
	}
	var text strings.Builder
	for _, line := range [][2]string{
		{"KUBECONFIG", d.kubeconfig()},
		{"MYCLOUD_ENDPOINT", endpoint},
		{"MYCLOUD_TOKEN", token},
	} {
		fmt.Fprintf(&text, "export %s='%s'\n", line[0], quoted(line[1]))
	}
	root := filepath.Dir(d.path)
	fmt.Fprintf(&text, "export PATH='%s':'%s':\"$PATH\"\n", quoted(filepath.Join(root, "bin")), quoted(filepath.Join(root, "bin", "tools")))
	return os.WriteFile(d.env(), []byte(text.String()), 0o600)
}

// quoted returns a text as it is written between single quotes.
func quoted(text string) string { return strings.ReplaceAll(text, "'", `'\''`) }

// markReady writes the ready file when the demonstration responds. The file contains the ID of this process, which
// distinguishes it from the file of a killed run.
func (d *directory) markReady() error { return os.WriteFile(d.ready(), ownPID(), 0o600) }

// close releases the directory.
func (d *directory) close() error {
	return errors.Join(os.RemoveAll(d.ready()), d.lock.Close())
}

func ownPID() []byte { return fmt.Appendln(nil, os.Getpid()) }

func (d *directory) ready() string      { return filepath.Join(d.path, "ready") }
func (d *directory) env() string        { return filepath.Join(d.path, "env") }
func (d *directory) kubeconfig() string { return filepath.Join(d.path, "kubeconfig") }
func (d *directory) state() string      { return filepath.Join(d.path, "state") }
func (d *directory) pids() string       { return filepath.Join(d.path, "pids") }
