package observability

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/time/rate"
	"k8s.io/klog/v2"
)

// Callers cannot fill the log, neither by long texts nor by many requests, and an operator sees that lines are missing.
func TestBounded(t *testing.T) {
	for _, format := range []string{FormatText, FormatJSON} {
		var out bytes.Buffer
		o := LogOptions{Format: format, Output: &out}
		base, err := o.NewLogger()
		if err != nil {
			t.Fatal(err)
		}
		logger := Bounded(base).WithValues("webhook", "w")
		long := strings.Repeat("\x01", 1<<20)
		for range 20 {
			logger.Info("Denied", "user", long, "object", klog.KRef(long, long), "audit", map[string]string{"a": long}, "err", errors.New(long))
			logger.V(2).Info("Admitted", "user", long)
		}
		if out.Len() > 20<<10 || strings.Count(out.String(), "Denied") != linesAtOnce {
			t.Errorf("%s: 20 requests log %d bytes, %d lines", format, out.Len(), strings.Count(out.String(), "Denied"))
		}
		out.Reset()
		logger.Error(errors.New(long), "Failed")
		if out.Len() > 5000 || out.Len() < 1000 {
			t.Errorf("%s: an error of %d bytes", format, out.Len())
		}
		sink, _ := logger.GetSink().(*bounded)
		sink.lines.by["Denied"].rate = rate.NewLimiter(rate.Inf, 0)
		out.Reset()
		logger.Info("Denied", "user", "jane")
		logger.Info("Denied", "user", "john")
		if text := out.String(); strings.Count(text, "suppressedLines") != 1 || !strings.Contains(text, "10") || !strings.Contains(text, "john") {
			t.Errorf("%s: %s", format, text)
		}
	}
}
