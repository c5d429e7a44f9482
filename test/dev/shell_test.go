package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shell is a terminal in which a user enters the commands of a page: variables and the folder are kept from one to the
// next.
type shell struct {
	input io.Writer
	lines chan string
}

// inputLimit is how long an input may take.
const inputLimit = time.Minute

// end is the last line of the output of every input, with its status.
const end = "\x04end of output"

// prelude makes errors of single commands visible: a block has the status of the first that failed, also in a pipe.
// Nothing is installed into the demonstration a second time; the chart must accept the values.
const prelude = `set -o pipefail
helm() { if [ "$1" = install ]; then shift && command helm template "$@" >/dev/null; else command helm "$@"; fi; }
trap 'status=$?' ERR
`

// startShell starts a shell in a folder.
func startShell(t *testing.T, folder string, environment []string) *shell {
	t.Helper()
	cmd := exec.Command("bash", "--noprofile", "--norc")
	cmd.Dir, cmd.Env = folder, environment
	// What runs in the background ends with the shell.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &shell{input: input, lines: make(chan string, 1000)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(s.lines)
		for r := bufio.NewReader(output); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			s.lines <- line
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		for range s.lines { // output that no test has read
		}
		<-done
		_ = cmd.Wait()
	})
	if _, status, err := s.run(prelude); err != nil || status != 0 {
		t.Fatal(status, err)
	}
	return s
}

// run returns what an input prints, and the status of the first command that failed, or 0.
func (s *shell) run(input string) (output string, status int, err error) {
	// Commands must not read the next ones.
	if _, err := fmt.Fprintf(s.input, "status=0\n{\n%s\n} </dev/null\necho; echo '%s' $status\n", input, end); err != nil {
		return "", 0, err
	}
	var b strings.Builder
	for timeout := time.After(inputLimit); ; {
		select {
		case <-timeout:
			return b.String(), 0, fmt.Errorf("no end after %s", inputLimit)
		case line, more := <-s.lines:
			if !more {
				return b.String(), 0, errStopped
			}
			if number, ended := strings.CutPrefix(line, end+" "); ended {
				status, err = strconv.Atoi(strings.TrimSpace(number))
				return b.String(), status, err
			}
			b.WriteString(line)
		}
	}
}

func TestShell(t *testing.T) {
	s := startShell(t, t.TempDir(), []string{"PATH=/usr/bin:/bin"})
	for _, step := range []struct {
		input, output string
		status        int
	}{
		{"A=b; cd /", "", 0},
		{"echo $A $PWD; echo c >&2", "b /\nc", 0},
		{"cat", "", 0},
		{"cat <<X\nd\nX", "d", 0},
		{"(exit 3)\ntrue", "", 3},
		{"(exit 4) | cat", "", 4},
		{"if false; then true; fi", "", 0},
	} {
		output, status, err := s.run(step.input)
		if strings.TrimSpace(output) != step.output || status != step.status || err != nil {
			t.Errorf("%s: got %q, status %d, error %v", step.input, output, status, err)
		}
	}
	if _, _, err := s.run("exit 1"); err == nil {
		t.Error("the end of the shell is not an error")
	}
}
