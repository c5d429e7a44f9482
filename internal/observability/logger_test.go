package observability_test

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"

	"quaymaster.dev/internal/observability"
)

func TestNewLogger(t *testing.T) {
	tests := map[string]struct {
		format string
		want   string
	}{
		"text": {observability.FormatText, `time=T level=info msg=Handled object.name=web object.namespace=shop
time=T level=debug msg=Detail
time=T level=error msg=Failed err=boom
time=T level=warn msg=library
`},
		"json": {observability.FormatJSON, `{"time":"T","level":"info","msg":"Handled","object":{"name":"web","namespace":"shop"}}
{"time":"T","level":"debug","msg":"Detail"}
{"time":"T","level":"error","msg":"Failed","err":"boom"}
{"time":"T","level":"warn","msg":"library"}
`},
	}
	timestamp := regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			options := observability.LogOptions{Format: test.format, Verbosity: 2, Output: &out}
			logger, err := options.NewLogger()
			if err != nil {
				t.Fatal(err)
			}
			logger.Info("Handled", "object", klog.KRef("shop", "web"))
			logger.V(2).Info("Detail")
			logger.V(3).Info("Too verbose")
			logger.Error(errors.New("boom"), "Failed")
			slog.New(logr.ToSlogHandler(logger)).Warn("library\n")
			if diff := cmp.Diff(test.want, timestamp.ReplaceAllString(out.String(), "T")); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewLoggerRejectsOtherFormats(t *testing.T) {
	_, err := (&observability.LogOptions{Format: "xml"}).NewLogger()
	if err == nil || err.Error() != `log format must be "text" or "json"; got "xml"` {
		t.Errorf("got %v", err)
	}
}
