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

// Output is the output and the exit code of a command.
type Output struct {
	Stdout, Stderr string
	// Code is the exit code.
	Code int
}

// Kubectl runs kubectl with a kubeconfig and stdin. If kubectl fails, its exit code is in Output; the error is only set
// if kubectl could not be run.
func Kubectl(ctx context.Context, kubeconfig, stdin string, args ...string) (Output, error) {
	path, err := Tool("kubectl")
	if err != nil {
		return Output{}, err
	}
	cache := filepath.Join(filepath.Dir(kubeconfig), "kubectl-cache")
	return Run(ctx, stdin, path, append([]string{"--kubeconfig", kubeconfig, "--cache-dir", cache}, args...)...)
}

// Run runs a command with stdin until it ends and returns its output.
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
