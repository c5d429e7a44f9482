package haproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The files in the engine's folder.
const (
	configFile    = "haproxy.cfg"
	candidateFile = "candidate.cfg"
	stateFile     = "servers.state"
	limitsFile    = "limits.map"
	countersFile  = "counters.json"
	masterSocket  = "master.sock"
	pidFile       = "haproxy.pid"
	logFile       = "haproxy.log"
)

const (
	// readyTimeout limits the start of HAProxy and of a new worker.
	readyTimeout = 30 * time.Second
	// checkTimeout limits the check of a configuration.
	checkTimeout = 20 * time.Second
	poll         = 20 * time.Millisecond
	// logLimit is the size at which the log is emptied.
	logLimit = 4 << 20
)

// errNotRunning is returned for a HAProxy that must be started.
var errNotRunning = errors.New("haproxy is not running")

// running returns the processes of the HAProxy in the folder, which may have been started by an agent before this one.
func (e *Engine) running(ctx context.Context) (*processes, error) {
	p, err := e.master.processes(ctx)
	// At a reload the master replaces itself, its socket and its pid file: for a moment there may be none of them.
	for try := 0; try < 5 && absent(err) && e.started() && ctx.Err() == nil; try++ {
		e.Clock.Sleep(100 * time.Millisecond)
		p, err = e.master.processes(ctx)
	}
	e.process.Lock()
	defer e.process.Unlock()
	if e.child != 0 && ended(e.child) {
		e.child = 0
	}
	if err == nil {
		if pid := e.find(); pid != 0 {
			e.pid = pid
		}
		return p, nil
	}
	if absent(err) {
		if pid := e.find(); pid != 0 {
			return nil, fmt.Errorf("haproxy runs as process %d, but does not answer: %w", pid, err)
		}
		e.pid = 0
		return nil, errNotRunning
	}
	return nil, err
}

// ended reports whether a child has ended. One that has remains until it is waited for.
func ended(child int) bool {
	pid, err := unix.Wait4(child, nil, unix.WNOHANG, nil)
	return pid == child || errors.Is(err, unix.ECHILD)
}

// absent reports whether nothing answers at a socket.
func absent(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// started reports whether HAProxy has ever been started in the folder.
func (e *Engine) started() bool {
	e.process.Lock()
	defer e.process.Unlock()
	_, err := os.Stat(e.file(pidFile))
	return err == nil || e.pid != 0
}

// alive returns the master process, or 0 if there is none.
func (e *Engine) alive() int {
	e.process.Lock()
	defer e.process.Unlock()
	return e.find()
}

// find returns the process that wrote the pid file, or the last one that answered while the file is being replaced, if
// it still runs and is HAProxy. The caller holds process.
func (e *Engine) find() int {
	pid := e.pid
	if content, err := os.ReadFile(e.file(pidFile)); err == nil {
		if written, err := strconv.Atoi(strings.TrimSpace(string(content))); err == nil {
			pid = written
		}
	}
	if pid == 0 {
		return 0
	}
	proc := "/proc/" + strconv.Itoa(pid)
	command, err := os.ReadFile(proc + "/cmdline")
	if err != nil {
		return 0
	}
	if len(command) == 0 && pid == e.pid {
		// It is replacing itself, or has ended without having been waited for: then it has no program any more.
		if _, err := os.Readlink(proc + "/exe"); err == nil {
			return pid
		}
	}
	if !bytes.Contains(command, []byte(e.file(configFile))) {
		return 0
	}
	return pid
}

// start starts HAProxy in a session of its own, so that it outlives the agent.
func (e *Engine) start(ctx context.Context, r *rendered) error {
	// What is known about members is too old.
	if err := remove(e.file(stateFile)); err != nil {
		return err
	}
	if err := errors.Join(e.write(limitsFile, r.limits), e.write(configFile, r.text)); err != nil {
		return err
	}
	log, err := os.OpenFile(e.file(logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	from, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	// The process must not end with the context.
	command := e.command(context.WithoutCancel(ctx),
		"-W", "-S", e.file(masterSocket)+",mode,600", "-p", e.file(pidFile), "-f", e.file(configFile))
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start haproxy: %w", err)
	}
	e.process.Lock()
	e.child = command.Process.Pid
	e.process.Unlock()
	e.Logger.InfoContext(ctx, "haproxy started", "pid", command.Process.Pid)
	if err := e.ready(ctx, r.structure, nil); err != nil {
		return e.failed(fmt.Errorf("start haproxy: %w", err), r, from)
	}
	return nil
}

// failed returns why HAProxy does not run with a configuration, as its log says.
func (e *Engine) failed(cause error, r *rendered, from int64) error {
	found := e.said(from)
	if len(found) > 0 {
		cause = fmt.Errorf("%w: %s", cause, strings.Join(found[:min(len(found), 2)], "; "))
	}
	if sections := blame(r.text, found); len(sections) > 0 {
		return &refusedError{sections, cause}
	}
	return cause
}

// reload makes HAProxy read the configuration again: a new worker gets the listening sockets, and the old one goes on
// with its connections.
func (e *Engine) reload(ctx context.Context, before *processes, r *rendered) error {
	if before.current != 0 {
		e.counted.Lock()
		err := e.count(ctx)
		e.counted.Unlock()
		if err != nil {
			return err
		}
		state, err := e.master.worker(ctx, before.current, "show servers state", "")
		if err != nil {
			return fmt.Errorf("show servers state: %w", err)
		}
		if err := e.write(stateFile, []byte(state+"\n")); err != nil {
			return err
		}
	}
	loaded, err := os.ReadFile(e.file(configFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := errors.Join(e.write(limitsFile, r.limits), e.write(configFile, r.text)); err != nil {
		return err
	}
	from := e.rotate()
	if _, err = e.master.command(ctx, "reload", ""); err == nil {
		err = e.ready(ctx, r.structure, before)
	}
	if err != nil {
		err = e.failed(fmt.Errorf("reload haproxy: %w", err), r, from)
		// The file must be what HAProxy has loaded.
		return errors.Join(err, e.write(configFile, loaded))
	}
	return nil
}

// Stop ends HAProxy and all its connections.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.units = nil
	for master := range e.hung {
		e.kill(master)
	}
	pid := e.alive()
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop haproxy: %w", err)
	}
	for e.alive() != 0 {
		// Without it, a child that has ended would count as alive.
		_, _ = e.running(ctx)
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop haproxy: %w", ctx.Err())
		case <-e.Clock.After(poll):
		}
	}
	return nil
}

// ready waits until a worker with the structure answers.
func (e *Engine) ready(ctx context.Context, structure string, before *processes) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		p, err := e.running(ctx)
		switch {
		case errors.Is(err, errNotRunning) && e.childEnded():
			return err
		case err != nil:
		case before != nil && p.reloads != before.reloads && p.failed > 0:
			return errors.New("the new worker has not started; the old one goes on")
		case p.current != 0 && (before == nil || p.current != before.current):
			var runs string
			if runs, err = e.master.structure(ctx, p.current); err == nil && runs == structure {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-e.Clock.After(poll):
		}
	}
}

func (e *Engine) childEnded() bool {
	e.process.Lock()
	defer e.process.Unlock()
	return e.child == 0
}

// rotate empties the log if it is long, and returns where it ends.
func (e *Engine) rotate() int64 {
	info, err := os.Stat(e.file(logFile))
	if err != nil {
		return 0
	}
	if info.Size() < logLimit {
		return info.Size()
	}
	// HAProxy appends, so that it goes on at the start.
	if err := os.Truncate(e.file(logFile), 0); err != nil {
		return info.Size()
	}
	return 0
}

// said returns the alerts that HAProxy has logged since a position of its log.
func (e *Engine) said(from int64) []string {
	content, err := os.ReadFile(e.file(logFile))
	if err != nil || from > int64(len(content)) {
		return nil
	}
	return alerts(content[from:])
}

// alerts returns what HAProxy calls an alert.
func alerts(output []byte) []string {
	var found []string
	for line := range strings.Lines(string(output)) {
		if _, text, ok := strings.Cut(line, "[ALERT]"); ok {
			if _, after, ok := strings.Cut(text, " : "); ok {
				text = after
			}
			found = append(found, strings.TrimSpace(text))
		}
	}
	return found
}

// check has HAProxy check a configuration, and returns the sections that it refuses.
func (e *Engine) check(ctx context.Context, r *rendered) (map[string]error, error) {
	if _, err := os.Stat(e.file(limitsFile)); errors.Is(err, os.ErrNotExist) {
		// The configuration refers to it.
		if err := e.write(limitsFile, r.limits); err != nil {
			return nil, err
		}
	}
	if err := e.write(candidateFile, r.text); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	command := e.command(ctx, "-W", "-c", "-f", e.file(candidateFile))
	command.WaitDelay = time.Second
	output, err := command.CombinedOutput()
	if err == nil {
		return nil, nil
	}
	found := alerts(output)
	exit, ok := errors.AsType[*exec.ExitError](err)
	if sections := blame(r.text, found); ok && exit.Exited() && len(sections) > 0 {
		return sections, nil
	}
	return nil, fmt.Errorf("check configuration: %w: %s", err, strings.Join(found[:min(len(found), 2)], "; "))
}

// command returns a command that runs HAProxy.
func (e *Engine) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, e.Binary, arguments...)
	// The agent's environment has a token, which the workers must not have. Without PATH, HAProxy finds itself by its path.
	command.Args[0], command.Env = command.Path, []string{}
	// Without the folder it started in, HAProxy refuses every reload, and the agent's may be removed.
	command.Dir = e.Dir
	return command
}

func (e *Engine) file(name string) string { return filepath.Join(e.Dir, name) }

// write replaces a file of the folder, so that a reader has the old or the new content and nothing between them.
func (e *Engine) write(name string, content []byte) error {
	next := e.file(name) + ".new"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		return err
	}
	return os.Rename(next, e.file(name))
}
