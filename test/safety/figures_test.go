package safety

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

var figures = flag.String("figures", "", "file to append the figures of the tests to: go test does not show the logs of tests that pass")

// figure logs a line with a figure.
func figure(t *testing.T, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	t.Log(line)
	if *figures == "" {
		return
	}
	file, err := os.OpenFile(*figures, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.WriteString(line + "\n"); err != nil {
		t.Error(err)
	}
}
