package process

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// commandsAtOnce keeps commands within what HAProxy reads at once.
const commandsAtOnce = 100

// limitsText returns the file from which a worker that starts has the limits.
func limitsText(limits map[string]int) []byte {
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		fmt.Fprintln(&b, key, limits[key])
	}
	return b.Bytes()
}

// SetLimits makes the limits of a worker these, as far as it has their keys. If it refuses one, the error wraps a
// CommandError.
func (h *HAProxy) SetLimits(ctx context.Context, worker int, limits map[string]int) error {
	if len(limits) == 0 {
		return nil
	}
	file := h.File(LimitsFile)
	answer, err := h.Command(ctx, worker, "show map "+file, "")
	if err != nil {
		return fmt.Errorf("show map: %w", err)
	}
	has := map[string]string{}
	for line := range strings.Lines(answer) {
		if fields := strings.Fields(line); len(fields) == 3 {
			has[fields[1]] = fields[2]
		}
	}
	var commands []string
	for _, key := range slices.Sorted(maps.Keys(limits)) {
		// A worker of an earlier agent has limits that cannot be changed, and none of these keys.
		if value, ok := has[key]; ok && value != strconv.Itoa(limits[key]) {
			commands = append(commands, fmt.Sprintf("set map %s %s %d", file, key, limits[key]))
		}
	}
	for some := range slices.Chunk(commands, commandsAtOnce) {
		if err := h.Do(ctx, worker, strings.Join(some, ";")); err != nil {
			return fmt.Errorf("set limits: %w", err)
		}
	}
	return nil
}
