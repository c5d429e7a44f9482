// Package observability makes the loggers of our processes.
package observability

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
)

// The formats of logs.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// LogOptions say how a process logs.
type LogOptions struct {
	// Format is text or json.
	Format string
	// Verbosity shows messages up to this level: 0 is what an operator wants to know, 2 every admitted object.
	Verbosity int
	// Output takes the lines.
	Output io.Writer
}

// NewLogger makes a logger, and the handler below it for code that logs through log/slog.
func NewLogger(o LogOptions) (logr.Logger, slog.Handler, error) {
	// The levels of logr are the negative ones of slog.
	options := &slog.HandlerOptions{Level: slog.Level(-o.Verbosity), ReplaceAttr: nameLevel}
	var handler slog.Handler
	switch o.Format {
	case FormatText:
		handler = slog.NewTextHandler(o.Output, options)
	case FormatJSON:
		handler = slog.NewJSONHandler(o.Output, options)
	default:
		return logr.Logger{}, nil, fmt.Errorf("log format must be %s or %s; got %q", FormatText, FormatJSON, o.Format)
	}
	return logr.FromSlogHandler(handler), handler, nil
}

// nameLevel writes levels as info, error and the like instead of INFO or, for the finer ones, DEBUG+2.
func nameLevel(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 || a.Key != slog.LevelKey {
		return a
	}
	level, ok := a.Value.Any().(slog.Level)
	switch {
	case !ok:
		return a
	case level < slog.LevelInfo:
		return slog.String(slog.LevelKey, "debug")
	}
	return slog.String(slog.LevelKey, strings.ToLower(level.String()))
}
