package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// tailLines is how much of a log an error quotes.
const tailLines = 15

// Spec says what to run.
type Spec struct {
	// Name is the name in messages, and that of the log and PID files.
	Name string
	// Path is the program's file.
	Path string
	// Args are the arguments without the program's name.
	Args []string
	// Env is added to the environment of this process.
	Env []string
	// LogDir receives standard output and standard error in NAME.log, after what is there already.
	LogDir string
	// PIDDir, if set, receives NAME.pid for as long as the process runs; see Reap.
	PIDDir string
}

// Process is a running or ended child.
type Process struct {
	spec Spec
	cmd  *exec.Cmd
	done chan struct{}
}

// Start runs the program. The caller owns it and calls Stop or Kill.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(filepath.Join(spec.LogDir, spec.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	defer log.Close() // the child holds its own descriptor

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
	_ = p.cmd.Wait() // its result stays in ProcessState
	if p.spec.PIDDir != "" {
		// A file that stays behind names a process that is gone, which Reap sees.
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

// Log returns the path of the file that holds the process's output.
func (p *Process) Log() string { return filepath.Join(p.spec.LogDir, p.spec.Name+".log") }

// Exit describes how the process ended, with the last lines of its log. It is nil while the process runs.
func (p *Process) Exit() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	return fmt.Errorf("%s ended: %s; last lines of %s:\n%s", p.spec.Name, p.How(), p.Log(), Tail(p.Log(), tailLines))
}

// How tells in a few words how the process ended, as in "signal: killed".
func (p *Process) How() string {
	<-p.done
	return p.cmd.ProcessState.String()
}

// Wait blocks until the process ends or the time is over, and returns its exit code.
func (p *Process) Wait(limit time.Duration) (int, error) {
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-time.After(limit):
		return -1, fmt.Errorf("%s still runs after %s", p.spec.Name, limit)
	}
}

// Stop asks the process to end and waits for it. A process that still runs after the grace period is killed with
// its group, and the error says so.
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

// Kill ends the process and its group at once, as a crash would, and waits for it.
func (p *Process) Kill() {
	// The group may be gone already, which is what is wanted.
	_ = p.Signal(syscall.SIGKILL)
	<-p.done
}

// Signal sends a signal to the process's group. It does nothing once the process has ended.
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
