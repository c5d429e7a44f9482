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

	"quaymaster.dev/test/process"
)

// directory, .dev unless told otherwise, is what a demonstration leaves for its users and for the run after it.
type directory struct {
	path string
	lock *os.File
}

// open takes the directory for this run: it waits with some patience for a run that is ending, kills what a killed one left behind and
// removes its state unless that is kept.
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
		fmt.Fprintf(out, "cleaned up after a killed run: %s\n", strings.Join(killed, ", "))
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

// acquire locks the directory. The kernel releases the lock with the process, however that ends.
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
			owner, _ := os.ReadFile(path) // only to name it
			file.Close()
			return fmt.Errorf("a demonstration runs in %s already (process %s): stop it first, or use it through %s",
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

// publish writes what users of the demonstration read.
func (d *directory) publish(kubeconfig, endpoint, token string) error {
	data, err := os.ReadFile(kubeconfig)
	if err != nil {
		return fmt.Errorf("publish the kubeconfig: %w", err)
	}
	if err := os.WriteFile(d.kubeconfig(), data, 0o600); err != nil {
		return fmt.Errorf("publish the kubeconfig: %w", err)
	}
	var text strings.Builder
	for _, line := range [][2]string{
		{"KUBECONFIG", d.kubeconfig()},
		{"MYCLOUD_ENDPOINT", endpoint},
		{"MYCLOUD_TOKEN", token},
	} {
		fmt.Fprintf(&text, "export %s='%s'\n", line[0], strings.ReplaceAll(line[1], "'", `'\''`))
	}
	return os.WriteFile(d.env(), []byte(text.String()), 0o600)
}

// markReady tells whoever waits for it that the demonstration answers. The file holds this process's id, which tells it
// from one that a killed run left behind.
func (d *directory) markReady() error { return os.WriteFile(d.ready(), ownPID(), 0o600) }

// close gives the directory back.
func (d *directory) close() error {
	return errors.Join(os.RemoveAll(d.ready()), d.lock.Close())
}

func ownPID() []byte { return fmt.Appendln(nil, os.Getpid()) }

func (d *directory) ready() string      { return filepath.Join(d.path, "ready") }
func (d *directory) env() string        { return filepath.Join(d.path, "env") }
func (d *directory) kubeconfig() string { return filepath.Join(d.path, "kubeconfig") }
func (d *directory) state() string      { return filepath.Join(d.path, "state") }
func (d *directory) pids() string       { return filepath.Join(d.path, "pids") }
