// Package observability creates the loggers of our processes.
package observability

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
)

// The log formats.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// LogOptions configures the log of a process.
type LogOptions struct {
	// Format is text or json.
	Format string
	// Verbosity is the maximum level of messages that are logged: 0 for what operators need, 2 for every admitted
	// object.
	Verbosity int
	// Output receives the log lines.
	Output io.Writer
}

// NewLogger returns a logger, and its handler for code that logs through log/slog.
func NewLogger(o LogOptions) (logr.Logger, slog.Handler, error) {
	// The levels of slog are the negated levels of logr.
	options := &slog.HandlerOptions{Level: slog.Level(-o.Verbosity), ReplaceAttr: nameLevel}
	var handler slog.Handler
	switch o.Format {
	case FormatText:
		handler = slog.NewTextHandler(o.Output, options)
	case FormatJSON:
		handler = slog.NewJSONHandler(o.Output, options)
	default:
		return logr.Logger{}, nil, fmt.Errorf("log format must be %q or %q; got %q", FormatText, FormatJSON, o.Format)
	}
	return logr.FromSlogHandler(handler), handler, nil
}

// nameLevel writes levels as info, error and so on instead of INFO or, for verbose ones, DEBUG+2.
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
