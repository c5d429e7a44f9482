package haproxy

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

// master is the socket of HAProxy's master process, which passes commands on to its workers.
type master struct {
	socket string
}

// command sends a command and returns the answer. Some commands take lines of data, which must not have empty lines.
func (m master) command(ctx context.Context, command, data string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	address := &net.UnixAddr{Name: m.socket, Net: "unix"}
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

// worker sends commands to the worker with a process id. Several are separated by semicolons.
func (m master) worker(ctx context.Context, pid int, commands, data string) (string, error) {
	prefix := fmt.Sprintf("@!%d ", pid)
	return m.command(ctx, prefix+strings.ReplaceAll(commands, ";", ";"+prefix), data)
}

// processes are HAProxy's processes.
type processes struct {
	// current is 0 while there is none.
	current int
	old     []int
	// reloads counts all reloads, failed those that failed since the last that did not.
	reloads, failed int
}

func (m master) processes(ctx context.Context) (*processes, error) {
	answer, err := m.command(ctx, "show proc", "")
	if err != nil {
		return nil, fmt.Errorf("show proc: %w", err)
	}
	return parseProcesses(answer)
}

func parseProcesses(answer string) (*processes, error) {
	p := &processes{}
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
			p.reloads, _ = strconv.Atoi(fields[2])
			if _, after, ok := strings.Cut(line, "[failed: "); ok {
				number, _, _ := strings.Cut(after, "]")
				p.failed, _ = strconv.Atoi(number)
			}
		case fields[1] == "worker" && section == "workers":
			p.current = pid
		case fields[1] == "worker":
			p.old = append(p.old, pid)
		}
	}
	if !found {
		return nil, fmt.Errorf("show proc: no master in answer %q", answer)
	}
	return p, nil
}

// structure returns the structure of the configuration that a worker runs.
func (m master) structure(ctx context.Context, pid int) (string, error) {
	answer, err := m.worker(ctx, pid, "show info", "")
	if err != nil {
		return "", fmt.Errorf("show info: %w", err)
	}
	for line := range strings.Lines(answer) {
		if value, ok := strings.CutPrefix(line, "description: "); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("show info: worker %d has not answered: %.100q", pid, answer)
}
