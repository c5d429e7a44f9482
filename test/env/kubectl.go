package env

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Output is what a command said and how it ended.
type Output struct {
	Stdout, Stderr string
	// Code is the exit code.
	Code int
}

// Kubectl runs kubectl with a kubeconfig and feeds it stdin. A refusal is an answer, with its exit code in Output; the
// error is for a kubectl that could not run.
func Kubectl(ctx context.Context, kubeconfig, stdin string, args ...string) (Output, error) {
	path, err := Tool("kubectl")
	if err != nil {
		return Output{}, err
	}
	cache := filepath.Join(filepath.Dir(kubeconfig), "kubectl-cache")
	return Run(ctx, stdin, path, append([]string{"--kubeconfig", kubeconfig, "--cache-dir", cache}, args...)...)
}

// Run runs a command to its end, feeds it stdin and collects what it says.
func Run(ctx context.Context, stdin, path string, args ...string) (Output, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	out := Output{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Exited() {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("run %s: %w: %s", cmd.Path, err, strings.TrimSpace(out.Stderr))
	}
	return out, nil
}
