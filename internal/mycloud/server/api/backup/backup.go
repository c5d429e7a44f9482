// Package backup serves backups of the state over HTTP.
package backup

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/internal/mycloud/server/api/failure"
	"quaymaster.dev/internal/mycloud/server/store"
)

const (
	// limit is how long a client may take to read a backup, and chunkLimit how long to read so many bytes of it.
	limit, chunkLimit, chunk = 15 * time.Minute, 30 * time.Second, 1 << 20
	// most is how many backups there are at a time: each one takes as much of the disk as the state.
	most = 2
	// refusedWait is when to try again while there are that many.
	refusedWait = 10 * time.Second
)

// The results of requests for a backup.
const (
	complete = "complete"
	// cut are those that a client has not read to the end, or not in time.
	cut = "cut"
	// refused are those that were too many at a time, failed those that could not be written.
	refused, failed = "refused", "failed"
)

// Handler serves backups. A snapshot of the state goes to a file first: a client that reads slowly must not hold the snapshot,
// for as long as which the state could only grow.
type Handler struct {
	store  store.Store
	dir    string
	logger *slog.Logger
	slots  chan struct{}
	count  *prometheus.CounterVec
}

var (
	_ http.Handler         = (*Handler)(nil)
	_ prometheus.Collector = (*Handler)(nil)
)

// New returns a handler whose files are in a directory, without a name.
func New(s store.Store, dir string, l *slog.Logger) *Handler {
	h := &Handler{
		store: s, dir: dir, logger: l, slots: make(chan struct{}, most),
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mycloud_backups_total",
			Help: "Requests for a backup by result: complete, cut (not read to the end, or too slowly), refused (too many at a time), failed.",
		}, []string{"result"}),
	}
	for _, result := range []string{complete, cut, refused, failed} {
		h.count.WithLabelValues(result)
	}
	return h
}

// Describe implements prometheus.Collector.
func (h *Handler) Describe(descs chan<- *prometheus.Desc) { h.count.Describe(descs) }

// Collect implements prometheus.Collector.
func (h *Handler) Collect(metrics chan<- prometheus.Metric) { h.count.Collect(metrics) }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		failure.New(http.StatusMethodNotAllowed, cloudv1.CodeInvalid, "the method must be GET").With("Allow", http.MethodGet).Write(w, r)
		return
	}
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		h.count.WithLabelValues(refused).Inc()
		failure.New(http.StatusServiceUnavailable, cloudv1.CodeUnavailable,
			"%d backups are being read from this server, which is the maximum; try again later", most).RetryAfter(refusedWait).Write(w, r)
		return
	}
	file, size, err := h.spool()
	if err != nil {
		h.count.WithLabelValues(failed).Inc()
		h.logger.ErrorContext(r.Context(), "Could not write a backup", "error", err)
		failure.Internal().Write(w, r)
		return
	}
	defer func() { _ = file.Close() }() // it has no name any more
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if err := send(w, file); err != nil {
		h.count.WithLabelValues(cut).Inc()
		h.logger.WarnContext(r.Context(), "A client did not read a backup to its end", "error", err)
		// A truncated backup must not look like a complete one.
		panic(http.ErrAbortHandler)
	}
	h.count.WithLabelValues(complete).Inc()
}

// spool writes a backup to a file without a name, of which nothing is left after a crash, and returns it at its beginning.
func (h *Handler) spool() (file *os.File, size int64, err error) {
	if file, err = os.CreateTemp(h.dir, "backup-*.db"); err != nil {
		return nil, 0, fmt.Errorf("create a file: %w", err)
	}
	err = errors.Join(os.Remove(file.Name()), h.store.Backup(file))
	if err == nil {
		size, err = file.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, size, nil
}

// send sends a file. The connection allows less time for other responses.
func send(w http.ResponseWriter, file io.Reader) error {
	end, control, buffer := time.Now().Add(limit), http.NewResponseController(w), make([]byte, chunk)
	for {
		n, err := io.ReadFull(file, buffer)
		if n == 0 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			if errors.Is(err, io.EOF) {
				// What the kernel does not have yet is sent after this.
				return control.Flush()
			}
			return err
		}
		deadline := time.Now().Add(chunkLimit)
		if end.Before(deadline) {
			deadline = end
		}
		_ = control.SetWriteDeadline(deadline) // writers without deadlines, as in tests, do not stall
		if _, err := w.Write(buffer[:n]); err != nil {
			return err
		}
	}
}
