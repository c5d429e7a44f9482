package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// checkTimeout limits the check of a configuration.
	checkTimeout = 20 * time.Second
	// logLimit is the size at which the log is emptied.
	logLimit = 4 << 20
)

// Check has HAProxy check a configuration, and returns why it refuses sections of it, by their names. An error means that
// it could not be checked, or is refused as a whole. Runs is the structure that HAProxy runs, if it does: sections that it
// has loaded are not checked again, because that takes as long as a reload, and a reload says what is wrong, too.
func (h *HAProxy) Check(ctx context.Context, c *Configuration, runs string) (map[string]error, error) {
	if _, err := os.Stat(h.File(LimitsFile)); errors.Is(err, os.ErrNotExist) {
		// The configuration refers to it.
		if err := h.Write(LimitsFile, limitsText(c.Limits)); err != nil {
			return nil, err
		}
	}
	text := c.Text
	if loaded := h.Text(); runs != "" && strings.Contains(loaded, "description "+runs+"\n") {
		text = changed(c.Text, loaded)
	}
	if err := h.Write(candidateFile, text); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	command := h.command(ctx, "-W", "-c", "-f", h.File(candidateFile))
	command.WaitDelay = time.Second
	output, err := command.CombinedOutput()
	if err == nil {
		return nil, nil
	}
	found := alerts(output)
	exit, ok := errors.AsType[*exec.ExitError](err)
	if sections := blame(text, found); ok && exit.Exited() && len(sections) > 0 {
		return sections, nil
	}
	return nil, fmt.Errorf("check configuration: %w: %s", err, strings.Join(found[:min(len(found), 2)], "; "))
}

// section is a part of a configuration: a line such as "backend NAME" and those that belong to it, which are indented.
type section struct{ name, text string }

// sections returns the parts of a configuration. The first has no name.
func sections(text string) []section {
	list := []section{{}}
	start, at := 0, 0
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 2 && !strings.HasPrefix(line, " ") {
			list[len(list)-1].text, start = text[start:at], at
			list = append(list, section{name: words[1]})
		}
		at += len(line)
	}
	list[len(list)-1].text = text[start:]
	return list
}

// changed returns a configuration without the sections that are the same in another one, except for those that the rest
// refers to.
func changed(text []byte, before string) []byte {
	// The last section has no empty line behind it.
	old := map[string]bool{}
	for _, s := range sections(before) {
		old[strings.TrimSpace(s.text)] = true
	}
	same := func(s section) bool { return old[strings.TrimSpace(s.text)] }
	all, named := sections(string(text)), map[string]bool{}
	for _, s := range all {
		if same(s) {
			continue
		}
		for word := range strings.FieldsSeq(s.text) {
			named[word] = true
		}
	}
	var b bytes.Buffer
	for _, s := range all {
		if s.name == "" || !same(s) || named[s.name] {
			b.WriteString(s.text)
		}
	}
	return b.Bytes()
}

// RefusedError is returned if HAProxy does not run with a configuration because of some of its sections.
type RefusedError struct {
	// Sections has why HAProxy refuses them, by their names.
	Sections map[string]error
	cause    error
}

func (e *RefusedError) Error() string { return e.cause.Error() }

// failed returns why HAProxy does not run with a configuration, as its log says.
func (h *HAProxy) failed(cause error, c *Configuration, from int64) error {
	found := h.said(from)
	if len(found) > 0 {
		cause = fmt.Errorf("%w: %s", cause, strings.Join(found[:min(len(found), 2)], "; "))
	}
	if sections := blame(c.Text, found); len(sections) > 0 {
		return &RefusedError{sections, cause}
	}
	return cause
}

// rotate empties the log if it is long, and returns where it ends.
func (h *HAProxy) rotate() int64 {
	info, err := os.Stat(h.File(logFile))
	if err != nil {
		return 0
	}
	if info.Size() < logLimit {
		return info.Size()
	}
	// HAProxy appends, so that it goes on at the start.
	if err := os.Truncate(h.File(logFile), 0); err != nil {
		return info.Size()
	}
	return 0
}

// said returns the alerts that HAProxy has logged since a position of its log.
func (h *HAProxy) said(from int64) []string {
	content, err := os.ReadFile(h.File(logFile))
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

// position matches what HAProxy calls a line of its configuration file.
var position = regexp.MustCompile(`\[[^\]\s]*:([0-9]+)\]\s*:?\s*`)

// blame returns the sections of a configuration that alerts are about, with the first alert of each. HAProxy reads the
// file to its end, so that one attempt finds them all.
func blame(text []byte, alerts []string) map[string]error {
	var names []string
	for _, s := range sections(string(text)) {
		names = append(names, slices.Repeat([]string{s.name}, strings.Count(s.text, "\n"))...)
	}
	found := map[string]error{}
	for _, alert := range alerts {
		at := position.FindStringSubmatchIndex(alert)
		if at == nil {
			continue
		}
		line, err := strconv.Atoi(alert[at[2]:at[3]])
		if err != nil || line < 1 || line > len(names) || names[line-1] == "" {
			continue
		}
		if name := names[line-1]; found[name] == nil {
			found[name] = errors.New("haproxy refuses it: " + alert[at[1]:])
		}
	}
	return found
}
