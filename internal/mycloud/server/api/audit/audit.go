// Package audit keeps a log of who has written what through the API, as lines of JSON in a file. It never has secrets or
// bodies.
package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	lumberjack "gopkg.in/natefinch/lumberjack.v2"

	"quaymaster.dev/internal/ratelimit"
)

// Entry is a line of the log: one request that asked for a change.
type Entry struct {
	// Time is when the request had been answered.
	Time time.Time `json:"time"`
	// Actor is who sent it, and From the address that it came from.
	Actor Actor  `json:"actor"`
	From  string `json:"from"`
	// RequestID is the id in the response and in the log of the server.
	RequestID string `json:"requestID"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	// DryRun is true if the request changed nothing, whatever its status.
	DryRun bool `json:"dryRun,omitempty"`
	// Resource is the id of the object that was written, if it is known.
	Resource string `json:"resource,omitempty"`
	// Revision is that of the object, or of the cloud, after a write that succeeded.
	Revision string `json:"revision,omitempty"`
	// Status is the status of the response.
	Status int `json:"status"`
}

// Actor is who sends a request.
type Actor struct {
	// Kind is what proved it: flag, token, edge or certificate.
	Kind string `json:"kind"`
	Name string `json:"name"`
	Role string `json:"role"`
}

// Options configures a Log.
type Options struct {
	// File is the file of the log.
	File string
	// MaxMegabytes is the size at which a new file begins, and MaxBackups how many former files are kept.
	MaxMegabytes, MaxBackups int
	Logger                   *slog.Logger
}

// complainEvery is the time between two lines in the log of the server about entries that were lost.
const complainEvery = time.Minute

// Log is the log. A nil Log keeps nothing.
type Log struct {
	out    io.WriteCloser
	logger *slog.Logger
	// lost counts entries that could not be written, and omitted those of refused requests that were too many.
	lost, omitted prometheus.Counter
	refusals      *ratelimit.ByKey[Actor]

	mu sync.Mutex
	// torn is true if the last line may be incomplete.
	torn       bool
	complained time.Time
}

// Open opens the log. An entry that cannot be written later, because the disk is full, is counted.
func Open(o Options) (*Log, error) {
	f, err := os.OpenFile(o.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return newLog(&lumberjack.Logger{Filename: o.File, MaxSize: o.MaxMegabytes, MaxBackups: o.MaxBackups}, o.Logger), nil
}

func newLog(out io.WriteCloser, logger *slog.Logger) *Log {
	return &Log{
		out: out, logger: logger, refusals: ratelimit.New[Actor](refusedEvery, refusedBurst, mostActors),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mycloud_audit_log_lost_total", Help: "Entries of the audit log that could not be written.",
		}),
		omitted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "mycloud_audit_log_omitted_total",
			Help: "Requests that their senders had no permission for, and that were too many for the audit log.",
		}),
	}
}

// Describe implements prometheus.Collector.
func (l *Log) Describe(descs chan<- *prometheus.Desc) {
	l.lost.Describe(descs)
	l.omitted.Describe(descs)
}

// Collect implements prometheus.Collector.
func (l *Log) Collect(metrics chan<- prometheus.Metric) {
	l.lost.Collect(metrics)
	l.omitted.Collect(metrics)
}

// Close closes the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	return l.out.Close()
}

// Append writes an entry. If that fails, the API goes on.
func (l *Log) Append(ctx context.Context, e *Entry) {
	line, err := json.Marshal(e)
	line = append(line, '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		if l.torn {
			// The rest of a line must not make this one unreadable, too.
			line = append([]byte{'\n'}, line...)
		}
		_, err = l.out.Write(line)
		l.torn = err != nil
	}
	if err == nil {
		return
	}
	l.lost.Inc()
	if now := time.Now(); now.Sub(l.complained) >= complainEvery {
		l.complained = now
		l.logger.ErrorContext(ctx, "Could not write to the audit log", "error", err)
	}
}

const (
	// refusedEvery and refusedBurst limit the entries of requests that an actor may not send.
	refusedEvery, refusedBurst = 10 * time.Second, 20
	// mostActors limits the actors that are remembered.
	mostActors = 4096
)

type noteKey struct{}

// note is what an operation says about its effect.
type note struct {
	resource, revision string
	dryRun             bool
}

// withNote returns a context in which operations can say what they have written.
func withNote(ctx context.Context) (context.Context, *note) {
	n := &note{}
	return context.WithValue(ctx, noteKey{}, n), n
}

// Note says which object the request of a context has written, and its revision.
func Note(ctx context.Context, resource, revision string) {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		n.resource, n.revision = resource, revision
	}
}

// NoteDryRun says that the request of a context changes nothing.
func NoteDryRun(ctx context.Context) {
	if n, ok := ctx.Value(noteKey{}).(*note); ok {
		n.dryRun = true
	}
}
