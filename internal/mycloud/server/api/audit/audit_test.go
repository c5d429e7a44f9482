package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// flaky is a file on a disk that is full at times: then half a line is written.
type flaky struct {
	bytes.Buffer

	full bool
}

func (f *flaky) Write(b []byte) (int, error) {
	if !f.full {
		return f.Buffer.Write(b)
	}
	n, _ := f.Buffer.Write(b[:len(b)/2])
	return n, errors.New("no space left on device")
}

func (*flaky) Close() error { return nil }

// TestFullDisk: requests are answered while the disk is full, what is lost is counted and logged once, and later entries
// can be read.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var file flaky
	var logged bytes.Buffer
	l := newLog(&file, slog.New(slog.NewTextHandler(&logged, nil)))
	h := l.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Note(r.Context(), "lb-1", "7")
		w.WriteHeader(http.StatusCreated)
	}), func(*http.Request) bool { return true })
	for _, full := range []bool{false, true, true, false} {
		file.full = full
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/load-balancers", strings.NewReader("{}")))
		if w.Code != http.StatusCreated {
			t.Errorf("disk full %t: %d", full, w.Code)
		}
	}
	if n := testutil.ToFloat64(l.lost); n != 2 {
		t.Errorf("%v entries count as lost; want 2", n)
	}
	if n := strings.Count(logged.String(), "Could not write to the audit log"); n != 1 {
		t.Errorf("logged %d times: %s", n, &logged)
	}
	whole := 0
	for line := range strings.Lines(file.String()) {
		var e Entry
		if json.Unmarshal([]byte(line), &e) == nil {
			whole++
			if e.Resource != "lb-1" || e.Revision != "7" || e.Status != http.StatusCreated {
				t.Errorf("entry %s", line)
			}
		}
	}
	if whole != 2 {
		t.Errorf("%d entries can be read, want 2:\n%s", whole, &file)
	}
}

// TestPanic: a request that panics has an entry, too.
func TestPanic(t *testing.T) {
	t.Parallel()
	var file flaky
	h := newLog(&file, slog.New(slog.DiscardHandler)).Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic("boom")
	}), func(*http.Request) bool { return true })
	func() {
		defer func() { _ = recover() }()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/v1/instances/i-1", http.NoBody))
	}()
	if !strings.Contains(file.String(), `"status":500`) {
		t.Errorf("log %q", &file)
	}
}

// TestRotation: the log takes a bounded space, is for its owner alone, and goes on after a restart.
func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{File: filepath.Join(dir, "audit.log"), MaxMegabytes: 1, MaxBackups: 2, Logger: slog.New(slog.DiscardHandler)}
	for range 2 {
		l, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 4000 {
			l.Append(t.Context(), &Entry{Path: strings.Repeat("x", 500)})
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(o.File)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 || info.Size() == 0 || info.Size() > 1<<20 {
		t.Errorf("mode %s, %d bytes", info.Mode(), info.Size())
	}
	if _, err := Open(Options{File: filepath.Join(dir, "none", "audit.log")}); err == nil {
		t.Error("a file that cannot be created is accepted")
	}
}

// TestRefusals: users who have no permission to write cannot displace the entries of those who have.
func TestRefusals(t *testing.T) {
	t.Parallel()
	var file flaky
	l := newLog(&file, slog.New(slog.DiscardHandler))
	h := l.Wrap(http.NotFoundHandler(), func(*http.Request) bool { return true })
	for range 200 {
		path := "/v1/" + strings.Repeat("x", 5000)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody))
	}
	kept := strings.Count(file.String(), "\n")
	if omitted := testutil.ToFloat64(l.omitted); kept > refusedBurst+5 || kept < refusedBurst || int(omitted) != 200-kept {
		t.Errorf("%d entries, %v omitted", kept, omitted)
	}
	if perEntry := file.Len() / kept; perEntry > 1000 {
		t.Errorf("%d bytes for an entry", perEntry)
	}
}
