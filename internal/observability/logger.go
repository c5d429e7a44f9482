// Package observability sets up the log of our processes: one format and one time format for every line, whichever library
// writes it.
package observability

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// The log formats.
const (
	FormatText = "text"
	FormatJSON = "json"
)

// timeFormat has a fixed width and no local time.
const timeFormat = "2006-01-02T15:04:05.000Z"

// LogOptions configures the log of a process.
type LogOptions struct {
	// Format is text or json.
	Format string
	// Verbosity is the maximum level of messages that are logged: 0 for what operators need, 2 for what is done to every
	// object.
	Verbosity int
	// Output receives the log lines.
	Output io.Writer
}

// AddFlags adds the flags, which are the same for all roles.
func (o *LogOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Format, "log-format", FormatText, "log format: text or json")
	fs.IntVarP(&o.Verbosity, "v", "v", 0, "log verbosity; 2 logs what is done to every object")
}

// Validate returns every problem in the flags.
func (o *LogOptions) Validate() []error {
	var errs []error
	if o.Format != FormatText && o.Format != FormatJSON {
		errs = append(errs, fmt.Errorf("--log-format must be %s or %s; got %q", FormatText, FormatJSON, o.Format))
	}
	if o.Verbosity < 0 {
		errs = append(errs, fmt.Errorf("-v must not be negative; got %d", o.Verbosity))
	}
	return errs
}

// Start makes the process and its libraries log as configured, with the role in every line, and returns the logger. It
// must be called once, before anything is logged.
func (o *LogOptions) Start(role string) (logr.Logger, error) {
	var level klog.Level
	if err := level.Set(strconv.Itoa(o.Verbosity)); err != nil {
		return logr.Logger{}, fmt.Errorf("set the log verbosity: %w", err)
	}
	// The verbosity is klog's, which can be changed while the process runs.
	options := *o
	options.Verbosity = 0
	logger, err := options.NewLogger()
	if err != nil {
		return logr.Logger{}, err
	}
	logger = logger.WithValues("role", role)
	slog.SetDefault(slog.New(logr.ToSlogHandler(logger))) // of log, too
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	return logger, nil
}

// NewLogger returns a logger that nothing else uses.
func (o *LogOptions) NewLogger() (logr.Logger, error) {
	options := &slog.HandlerOptions{ReplaceAttr: plain}
	var handler slog.Handler
	switch o.Format {
	case FormatText:
		handler = slog.NewTextHandler(o.Output, options)
	case FormatJSON:
		handler = slog.NewJSONHandler(o.Output, options)
	default:
		return logr.Logger{}, fmt.Errorf("log format must be %q or %q; got %q", FormatText, FormatJSON, o.Format)
	}
	return logr.FromSlogHandler(verbose{handler, o.Verbosity}), nil
}

// verbose is a handler for messages up to a verbosity, and up to klog's.
type verbose struct {
	slog.Handler

	verbosity int
}

// Enabled implements slog.Handler. The levels of slog are the negated levels of logr.
func (v verbose) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.Level(-v.verbosity) || klog.V(klog.Level(-level)).Enabled()
}

// WithAttrs implements slog.Handler.
func (v verbose) WithAttrs(attrs []slog.Attr) slog.Handler {
	return verbose{v.Handler.WithAttrs(attrs), v.verbosity}
}

// WithGroup implements slog.Handler.
func (v verbose) WithGroup(name string) slog.Handler {
	return verbose{v.Handler.WithGroup(name), v.verbosity}
}

// plain writes times in timeFormat, levels as info, error and so on instead of INFO or, for verbose ones, DEBUG+2, and
// messages without the line break with which some libraries end them.
func plain(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.String(slog.TimeKey, a.Value.Time().UTC().Format(timeFormat))
	case slog.LevelKey:
		level, ok := a.Value.Any().(slog.Level)
		switch {
		case !ok:
			return a
		case level < slog.LevelInfo:
			return slog.String(slog.LevelKey, "debug")
		}
		return slog.String(slog.LevelKey, strings.ToLower(level.String()))
	case slog.MessageKey:
		return slog.String(slog.MessageKey, strings.TrimSpace(a.Value.String()))
	}
	return a
}
