// Package program runs the programs that an edge needs, none of which may hold it up.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// grace is how long output may still come after a program has ended or was killed: what it has started may have inherited
// its output, and go on.
const grace = time.Second

// ErrLimit is the error of a program that has not ended in time.
var ErrLimit = errors.New("the program hangs")

// Run runs a program with an input and returns its output, which is part of the error as well. A program that has not
// ended after the limit is killed, with the programs that it has started.
func Run(ctx context.Context, limit time.Duration, input string, command ...string) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(bounded, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	text := strings.TrimSpace(out.String())
	name := filepath.Base(command[0])
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return text, nil
	case ctx.Err() != nil:
		return text, fmt.Errorf("%s: %w", name, ctx.Err())
	case bounded.Err() != nil:
		return text, fmt.Errorf("%s has not ended within %s: %w", name, limit, ErrLimit)
	}
	return text, fmt.Errorf("%s: %w: %s", name, err, text)
}
