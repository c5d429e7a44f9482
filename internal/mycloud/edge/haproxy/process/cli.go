package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// commandTimeout limits one command. HAProxy answers within milliseconds unless the machine is overloaded.
const commandTimeout = 5 * time.Second

// send sends a command to the socket of the master process, which passes commands on to its workers, and returns the
// answer. Some commands take lines of data, which must not have empty lines.
func (h *HAProxy) send(ctx context.Context, command, data string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	address := &net.UnixAddr{Name: h.File(masterSocket), Net: "unix"}
	connection, err := (&net.Dialer{}).DialUnix(ctx, "unix", nil, address)
	if err != nil {
		return "", err
	}
	defer connection.Close()                                                           //nolint:errcheck // Everything has been read.
	stop := context.AfterFunc(ctx, func() { connection.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // It is closed next.
	defer stop()
	if data != "" {
		command += " <<\n" + strings.TrimRight(data, "\n") + "\n"
	}
	if _, err := io.WriteString(connection, command+"\n"); err != nil {
		return "", err
	}
	// HAProxy closes only after its client has.
	if err := connection.CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(connection)
	if err != nil {
		return "", errors.Join(err, ctx.Err())
	}
	return strings.TrimSpace(string(answer)), nil
}

// Command sends commands to the worker with a process id, several of them separated by semicolons, and returns their
// answers. Some commands take lines of data, which must not have empty lines. HAProxy says in the answer what it does not
// follow; an error means that it cannot be asked.
func (h *HAProxy) Command(ctx context.Context, worker int, commands, data string) (string, error) {
	prefix := fmt.Sprintf("@!%d ", worker)
	return h.send(ctx, prefix+strings.ReplaceAll(commands, ";", ";"+prefix), data)
}

// CommandError is returned for a command that HAProxy does not follow, although it answers.
type CommandError struct{ Command, Answer string }

func (e *CommandError) Error() string {
	return fmt.Sprintf("%s: haproxy answers %.200q", e.Command, e.Answer)
}

// Do sends commands to a worker, which must not answer anything. If it does, the error is a CommandError.
func (h *HAProxy) Do(ctx context.Context, worker int, commands string) error {
	answer, err := h.Command(ctx, worker, commands, "")
	if err != nil {
		return fmt.Errorf("%s: %w", commands, err)
	}
	if answer != "" {
		return &CommandError{commands, answer}
	}
	return nil
}

// Workers are the processes that carry traffic, by their process ids.
type Workers struct {
	// Current is the worker that accepts connections; 0 while there is none.
	Current int
	// Old are those before it that still have connections.
	Old []int
	// reloads counts all reloads, failed those that failed since the last that did not.
	reloads, failed int
}

func (h *HAProxy) workers(ctx context.Context) (*Workers, error) {
	answer, err := h.send(ctx, "show proc", "")
	if err != nil {
		return nil, fmt.Errorf("show proc: %w", err)
	}
	return parseWorkers(answer)
}

func parseWorkers(answer string) (*Workers, error) {
	w := &Workers{}
	section, found := "", false
	for line := range strings.Lines(answer) {
		if title, ok := strings.CutPrefix(line, "#"); ok {
			section = strings.TrimSpace(title)
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("show proc: unexpected line %q", line)
		}
		switch {
		case fields[1] == "master":
			found = true
			w.reloads, _ = strconv.Atoi(fields[2])
			if _, after, ok := strings.Cut(line, "[failed: "); ok {
				number, _, _ := strings.Cut(after, "]")
				w.failed, _ = strconv.Atoi(number)
			}
		case fields[1] == "worker" && section == "workers":
			w.Current = pid
		case fields[1] == "worker":
			w.Old = append(w.Old, pid)
		}
	}
	if !found {
		return nil, fmt.Errorf("show proc: no master in answer %q", answer)
	}
	return w, nil
}

// Structure returns the structure of the configuration that a worker runs.
func (h *HAProxy) Structure(ctx context.Context, worker int) (string, error) {
	answer, err := h.Command(ctx, worker, "show info", "")
	if err != nil {
		return "", fmt.Errorf("show info: %w", err)
	}
	for line := range strings.Lines(answer) {
		if value, ok := strings.CutPrefix(line, "description: "); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("show info: worker %d has not answered: %.100q", worker, answer)
}
