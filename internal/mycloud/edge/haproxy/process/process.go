// Package process runs HAProxy in a folder as a process of its own, which outlives the agent. It starts and reloads it with
// configurations, which it has checked before; finds the one that an agent before has started, by the socket of its master
// process; replaces one that does not answer; and passes commands to its workers. What a configuration is for, it does not
// know.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// The files in HAProxy's folder.
const (
	// StateFile has what is known about servers when HAProxy reloads, LimitsFile the limits. Configurations refer to them.
	StateFile  = "servers.state"
	LimitsFile = "limits.map"

	configFile    = "haproxy.cfg"
	candidateFile = "candidate.cfg"
	masterSocket  = "master.sock"
	pidFile       = "haproxy.pid"
	logFile       = "haproxy.log"
)

const (
	// readyTimeout limits the start of HAProxy and of a new worker.
	readyTimeout = 30 * time.Second
	poll         = 20 * time.Millisecond
)

// Options says how HAProxy runs.
type Options struct {
	// Dir is an absolute path to HAProxy's folder. The paths of its sockets must fit into the 108 characters that the kernel
	// allows.
	Dir string
	// Binary is haproxy's path; it defaults to haproxy.
	Binary string
	Clock  clock.Clock
	Logger *slog.Logger
}

// HAProxy is the one of a folder, which may run or not. Its methods may be called at the same time, except those that
// change what runs: Start, Reload, Check, Supervise and Stop, and Hung.
type HAProxy struct {
	Options

	// found guards what is known about the master process.
	found sync.Mutex
	// child is the process that was started, until it is known to have ended.
	child int
	// pid is the master that has answered last; 0 if none has.
	pid int

	// silent is since when HAProxy has not answered; zero if it has.
	silent time.Time
	// hung are master processes that were replaced, and since when.
	hung map[int]time.Time
}

// safeDir has the characters that need no quotes anywhere.
var safeDir = regexp.MustCompile(`^/[A-Za-z0-9/._-]{0,80}$`)

// New returns the HAProxy of a folder. It does no I/O. It returns an error if the folder's path cannot be used.
func New(o Options) (*HAProxy, error) {
	if !safeDir.MatchString(o.Dir) {
		return nil, fmt.Errorf("folder %q must be absolute, at most 80 characters long and consist of letters, digits, "+
			"dots, hyphens and underscores", o.Dir)
	}
	if o.Binary == "" {
		o.Binary = "haproxy"
	}
	return &HAProxy{Options: o, hung: map[int]time.Time{}}, nil
}

// Configuration is what HAProxy has to run.
type Configuration struct {
	// Text is the configuration file.
	Text []byte
	// Structure is the description in Text, by which HAProxy is recognized. Configurations with the same structure need no
	// reload.
	Structure string
	// Limits are the values of LimitsFile.
	Limits map[string]int
}

// ErrNotRunning means that HAProxy must be started.
var ErrNotRunning = errors.New("haproxy is not running")

// Running returns the workers of the HAProxy in the folder, which may have been started by an agent before this one. It
// returns ErrNotRunning if there is none; any other error means that it does not answer.
func (h *HAProxy) Running(ctx context.Context) (*Workers, error) {
	w, err := h.workers(ctx)
	// At a reload the master replaces itself, its socket and its pid file: for a moment there may be none of them.
	for try := 0; try < 5 && absent(err) && h.started() && ctx.Err() == nil; try++ {
		h.Clock.Sleep(100 * time.Millisecond)
		w, err = h.workers(ctx)
	}
	h.found.Lock()
	defer h.found.Unlock()
	if h.child != 0 && ended(h.child) {
		h.child = 0
	}
	if err == nil {
		if pid := h.find(); pid != 0 {
			h.pid = pid
		}
		return w, nil
	}
	if absent(err) {
		if pid := h.find(); pid != 0 {
			return nil, fmt.Errorf("haproxy runs as process %d, but does not answer: %w", pid, err)
		}
		h.pid = 0
		return nil, ErrNotRunning
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
func (h *HAProxy) started() bool {
	h.found.Lock()
	defer h.found.Unlock()
	_, err := os.Stat(h.File(pidFile))
	return err == nil || h.pid != 0
}

// alive returns the master process, or 0 if there is none.
func (h *HAProxy) alive() int {
	h.found.Lock()
	defer h.found.Unlock()
	return h.find()
}

// find returns the process that wrote the pid file, or the last one that answered while the file is being replaced, if
// it still runs and is HAProxy. The caller holds found.
func (h *HAProxy) find() int {
	pid := h.pid
	if content, err := os.ReadFile(h.File(pidFile)); err == nil {
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
	if len(command) == 0 && pid == h.pid {
		// It is replacing itself, or has ended without having been waited for: then it has no program any more.
		if _, err := os.Readlink(proc + "/exe"); err == nil {
			return pid
		}
	}
	if !bytes.Contains(command, []byte(h.File(configFile))) {
		return 0
	}
	return pid
}

// Start starts HAProxy in a session of its own, so that it outlives the agent, and waits until it runs the configuration.
// If HAProxy cannot because of sections of it, the error is a RefusedError.
func (h *HAProxy) Start(ctx context.Context, c *Configuration) error {
	// What is known about members is too old.
	if err := remove(h.File(StateFile)); err != nil {
		return err
	}
	if err := errors.Join(h.Write(LimitsFile, limitsText(c.Limits)), h.Write(configFile, c.Text)); err != nil {
		return err
	}
	log, err := os.OpenFile(h.File(logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	from, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	// The process must not end with the context.
	command := h.command(context.WithoutCancel(ctx),
		"-W", "-S", h.File(masterSocket)+",mode,600", "-p", h.File(pidFile), "-f", h.File(configFile))
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("start haproxy: %w", err)
	}
	h.found.Lock()
	h.child = command.Process.Pid
	h.found.Unlock()
	h.Logger.InfoContext(ctx, "haproxy started", "pid", command.Process.Pid)
	if err := h.ready(ctx, c.Structure, nil); err != nil {
		return h.failed(fmt.Errorf("start haproxy: %w", err), c, from)
	}
	return nil
}

// Reload makes HAProxy run another configuration: a new worker gets the listening sockets and the states of servers, and
// the old one goes on with its connections. Before are the workers of now. Errors are those of Start; with them, HAProxy
// goes on as before.
func (h *HAProxy) Reload(ctx context.Context, before *Workers, c *Configuration) error {
	if before.Current != 0 {
		state, err := h.Command(ctx, before.Current, "show servers state", "")
		if err != nil {
			return fmt.Errorf("show servers state: %w", err)
		}
		if err := h.Write(StateFile, []byte(state+"\n")); err != nil {
			return err
		}
	}
	loaded, err := os.ReadFile(h.File(configFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := errors.Join(h.Write(LimitsFile, limitsText(c.Limits)), h.Write(configFile, c.Text)); err != nil {
		return err
	}
	from := h.rotate()
	if _, err = h.send(ctx, "reload", ""); err == nil {
		err = h.ready(ctx, c.Structure, before)
	}
	if err != nil {
		err = h.failed(fmt.Errorf("reload haproxy: %w", err), c, from)
		// The file must be what HAProxy has loaded.
		return errors.Join(err, h.Write(configFile, loaded))
	}
	return nil
}

// Stop ends HAProxy, those that were replaced, and all their connections. It returns an error if the context ends before.
func (h *HAProxy) Stop(ctx context.Context) error {
	for master := range h.hung {
		h.kill(master)
	}
	pid := h.alive()
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop haproxy: %w", err)
	}
	for h.alive() != 0 {
		// Without it, a child that has ended would count as alive.
		_, _ = h.Running(ctx)
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop haproxy: %w", ctx.Err())
		case <-h.Clock.After(poll):
		}
	}
	return nil
}

// ready waits until a worker with the structure answers.
func (h *HAProxy) ready(ctx context.Context, structure string, before *Workers) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		w, err := h.Running(ctx)
		switch {
		case errors.Is(err, ErrNotRunning) && h.childEnded():
			return err
		case err != nil:
		case before != nil && w.reloads != before.reloads && w.failed > 0:
			return errors.New("the new worker has not started; the old one goes on")
		case w.Current != 0 && (before == nil || w.Current != before.Current):
			var runs string
			if runs, err = h.Structure(ctx, w.Current); err == nil && runs == structure {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-h.Clock.After(poll):
		}
	}
}

func (h *HAProxy) childEnded() bool {
	h.found.Lock()
	defer h.found.Unlock()
	return h.child == 0
}

// command returns a command that runs HAProxy.
func (h *HAProxy) command(ctx context.Context, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, h.Binary, arguments...)
	// The agent's environment has a token, which the workers must not have. Without PATH, HAProxy finds itself by its path.
	command.Args[0], command.Env = command.Path, []string{}
	// Without the folder it started in, HAProxy refuses every reload, and the agent's may be removed.
	command.Dir = h.Dir
	return command
}

// File returns the path of a file in HAProxy's folder.
func (h *HAProxy) File(name string) string { return filepath.Join(h.Dir, name) }

// Write replaces a file of the folder, so that a reader has the old or the new content and nothing between them.
func (h *HAProxy) Write(name string, content []byte) error {
	next := h.File(name) + ".new"
	if err := os.WriteFile(next, content, 0o600); err != nil {
		return err
	}
	return os.Rename(next, h.File(name))
}

// Text returns the configuration file: what HAProxy runs, if it does and no agent has ended during a reload. It is empty
// if there is none.
func (h *HAProxy) Text() string {
	content, _ := os.ReadFile(h.File(configFile))
	return string(content)
}
