package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// tailLines is how much of a log an error quotes.
const tailLines = 15

// Spec describes a process.
type Spec struct {
	// Name is used in messages and for the log and PID files.
	Name string
	// Path is the path of the program.
	Path string
	// Args are the arguments without the program name.
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// LogDir is the directory for NAME.log, to which standard output and standard error are appended.
	LogDir string
	// PIDDir, if set, is the directory for NAME.pid, which exists while the process runs; see Reap.
	PIDDir string
}

// Process is a running or ended child process.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts the program. The caller must call Stop or Kill.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(spec.LogDir, spec.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	defer log.Close() // the child has its own descriptor

	cmd := exec.Command(spec.Path, spec.Args...)
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Stdout = log
	cmd.Stderr = log
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}

	p := &Process{spec: spec, cmd: cmd, done: make(chan struct{})}
	var pidErr error
	if spec.PIDDir != "" {
		pidErr = writePIDFile(p.pidFile(), cmd.Process.Pid)
	}
	go p.wait()
	if pidErr != nil {
		p.Kill()
		return nil, fmt.Errorf("start %s: %w; %w", spec.Name, pidErr, p.Exit())
	}
	return p, nil
}

func (p *Process) wait() {
	_ = p.cmd.Wait() // ProcessState holds the result
	if p.spec.PIDDir != "" {
		// Reap ignores a leftover file of an ended process.
		_ = os.Remove(p.pidFile())
	}
	close(p.done)
}

// Name returns the name given in the Spec.
func (p *Process) Name() string { return p.spec.Name }

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Log returns the path of the log file.
func (p *Process) Log() string { return filepath.Join(p.spec.LogDir, p.spec.Name+".log") }

// Exit returns an error that describes how the process ended, with the last lines of its log. It is nil while the
// process runs.
func (p *Process) Exit() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	return fmt.Errorf("%s ended: %s; last lines of %s:\n%s", p.spec.Name, p.How(), p.Log(), Tail(p.Log(), tailLines))
}

// How returns how the process ended, such as "signal: killed", after waiting for the end.
func (p *Process) How() string {
	<-p.done
	return p.cmd.ProcessState.String()
}

// Wait waits until the process ends or the limit expires, and returns the exit code.
func (p *Process) Wait(limit time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return -1, fmt.Errorf("%s is still running after %s", p.spec.Name, limit)
	}
}

// Stop sends SIGTERM to the process and waits for it. A process that is still running after the grace period is killed
// with its group, and Stop returns an error.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if _, err := p.Wait(grace); err != nil {
		p.Kill()
		return fmt.Errorf("stop %s: still running %s after SIGTERM, killed", p.spec.Name, grace)
	}
	return nil
}

// Kill kills the process and its group, as in a crash, and waits for it.
func (p *Process) Kill() {
	// The group may already have ended.
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
}

// Signal sends a signal to the process group. It does nothing if the process has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(-p.PID(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s: %w", p.spec.Name, err)
	}
	return nil
}

func (p *Process) pidFile() string { return filepath.Join(p.spec.PIDDir, p.spec.Name+".pid") }

// tailBytes bounds how much of a log is read for its last lines.
const tailBytes = 16 << 10

// Tail returns the last lines of a file, indented for quoting, or a note that there are none.
func Tail(path string, lines int) string {
	file, err := os.Open(path)
	if err != nil {
		return "  (no log: " + err.Error() + ")"
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := file.Seek(-tailBytes, io.SeekEnd); err != nil {
			return "  (no log: " + err.Error() + ")"
		}
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return "  (no log: " + err.Error() + ")"
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "  (the log is empty)"
	}
	all := strings.Split(text, "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return "  " + strings.Join(all, "\n  ")
}
