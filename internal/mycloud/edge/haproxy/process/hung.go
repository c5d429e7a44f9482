package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// longestSilence is how long HAProxy may not answer before it is replaced.
	longestSilence = 5 * time.Second
	// mostHung is how many there may be that were replaced: more do not help a machine that is overloaded.
	mostHung = 3
	// longestSignal is how long a worker may take to note that it has to end.
	longestSignal = 3 * time.Second
)

// Supervise returns the workers if HAProxy answers. If there is none, or it has not answered for too long, it has start
// start one, and returns nil. An error is that of start, or says why HAProxy does not answer. Supervise also ends what is
// left of those that were replaced, so it has to be called every second or so.
func (h *HAProxy) Supervise(ctx context.Context, start func(context.Context) error) (*Workers, error) {
	h.bury()
	w, err := h.Running(ctx)
	if err == nil && w.Current != 0 {
		_, err = h.Structure(ctx, w.Current)
	}
	switch {
	case errors.Is(err, ErrNotRunning):
		return nil, start(ctx)
	case err != nil:
		return nil, errors.Join(err, h.unanswered(ctx, start))
	}
	h.silent = time.Time{}
	return w, nil
}

// Hung returns how many HAProxys there are that were replaced.
func (h *HAProxy) Hung() int { return len(h.hung) }

// unanswered replaces a HAProxy that has not answered for too long. Its workers may still work: they go on with their
// connections, while a new HAProxy accepts those that come.
func (h *HAProxy) unanswered(ctx context.Context, start func(context.Context) error) error {
	now := h.Clock.Now()
	if h.silent.IsZero() {
		h.silent = now
	}
	master := h.alive()
	if now.Sub(h.silent) < longestSilence || master == 0 || len(h.hung) >= mostHung {
		return nil
	}
	h.silent = time.Time{}
	h.Logger.ErrorContext(ctx, "haproxy does not answer and is replaced", "pid", master)
	// The new one binds the same socket, beside the old one's.
	if err := errors.Join(remove(h.File(masterSocket)), remove(h.File(pidFile))); err != nil {
		return err
	}
	h.found.Lock()
	h.pid = 0
	h.found.Unlock()
	h.hung[master] = now
	err := start(ctx)
	for _, worker := range children(master) {
		// It closes its listening sockets, and ends with its last connection.
		_ = syscall.Kill(worker, syscall.SIGUSR1)
	}
	return err
}

// bury ends what is left of a HAProxy that was replaced: workers that do not work either, and the master when its
// workers have ended, which would end with it.
func (h *HAProxy) bury() {
	for master, since := range h.hung {
		left := 0
		for _, worker := range children(master) {
			if h.Clock.Since(since) > longestSignal && pending(worker, syscall.SIGUSR1) {
				_ = syscall.Kill(worker, syscall.SIGKILL)
			}
			left++
		}
		if left == 0 {
			h.kill(master)
		}
	}
}

// kill ends a master that was replaced, and with it its workers.
func (h *HAProxy) kill(master int) {
	_ = syscall.Kill(master, syscall.SIGKILL)
	if ended(master) {
		delete(h.hung, master)
	}
}

func remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// children returns the processes that a process has started and not waited for, without those that have ended.
func children(pid int) []int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%[1]d/task/%[1]d/children", pid))
	if err != nil {
		return nil
	}
	var found []int
	for word := range strings.FieldsSeq(string(content)) {
		child, err := strconv.Atoi(word)
		if err != nil {
			continue
		}
		if _, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", child)); err == nil {
			found = append(found, child)
		}
	}
	return found
}

// pending reports whether a process has a signal to handle.
func pending(pid int, signal syscall.Signal) bool {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "ShdPnd:"); ok {
			mask, _ := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
			return mask&(1<<(signal-1)) != 0
		}
	}
	return false
}
