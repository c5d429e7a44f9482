package observability

import (
	"errors"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/visible"
)

const (
	// maxText is how much of one text is logged, and maxError how much of an error, which may have a stack.
	maxText  = 200
	maxError = 4000
	// linesPerSecond and linesAtOnce bound the lines with the same message.
	linesPerSecond = 2
	linesAtOnce    = 10
)

// Bounded returns a logger for what callers cause who are not trusted: long texts are cut, and of many lines with the
// same message only some are logged, with the number of those that were not. Lines of higher verbosity are all logged.
func Bounded(logger logr.Logger) logr.Logger {
	return logger.WithSink(&bounded{LogSink: logger.GetSink(), lines: &lines{by: map[string]*line{}}})
}

// lines holds the state of each message; messages are constants.
type lines struct {
	mu sync.Mutex
	by map[string]*line
}

type line struct {
	rate       *rate.Limiter
	suppressed int
}

// allow reports whether a line may be logged, and how many were not before it.
func (l *lines) allow(message string) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.by[message]
	if one == nil {
		one = &line{rate: rate.NewLimiter(linesPerSecond, linesAtOnce)}
		l.by[message] = one
	}
	if !one.rate.Allow() {
		one.suppressed++
		return 0, false
	}
	suppressed, one.suppressed = one.suppressed, 0
	return suppressed, true
}

type bounded struct {
	logr.LogSink

	lines *lines
}

// Info implements logr.LogSink.
func (b *bounded) Info(level int, message string, values ...any) {
	if level > 0 {
		b.LogSink.Info(level, message, cut(values)...)
		return
	}
	if suppressed, ok := b.lines.allow(message); ok {
		b.LogSink.Info(level, message, note(cut(values), suppressed)...)
	}
}

// Error implements logr.LogSink.
func (b *bounded) Error(err error, message string, values ...any) {
	if suppressed, ok := b.lines.allow(message); ok {
		if err != nil && len(err.Error()) > maxError {
			err = errors.New(shorten(err.Error(), maxError))
		}
		b.LogSink.Error(err, message, note(cut(values), suppressed)...)
	}
}

// WithValues implements logr.LogSink.
func (b *bounded) WithValues(values ...any) logr.LogSink {
	return &bounded{b.LogSink.WithValues(cut(values)...), b.lines}
}

// WithName implements logr.LogSink.
func (b *bounded) WithName(name string) logr.LogSink {
	return &bounded{b.LogSink.WithName(name), b.lines}
}

func note(values []any, suppressed int) []any {
	if suppressed > 0 {
		values = append(values, "suppressedLines", suppressed)
	}
	return values
}

// cut returns the values with short texts.
func cut(values []any) []any {
	short := make([]any, len(values))
	for i, value := range values {
		switch v := value.(type) {
		case string:
			value = shorten(v, maxText)
		case klog.ObjectRef:
			value = klog.KRef(shorten(v.Namespace, maxText), shorten(v.Name, maxText))
		case map[string]string:
			all := make(map[string]string, len(v))
			for key, text := range v {
				all[key] = shorten(text, maxText)
			}
			value = all
		case error:
			value = shorten(v.Error(), maxText)
		}
		short[i] = value
	}
	return short
}

// shorten cuts a text, and replaces control characters, which a log may write as many bytes.
func shorten(text string, limit int) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' {
			return '?'
		}
		return r
	}, visible.Shorten(text, limit))
}
