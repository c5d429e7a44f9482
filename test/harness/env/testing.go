package env

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"quaymaster.dev/test/harness/process"
)

// setupLimit bounds the start of everything a test package needs.
const setupLimit = 5 * time.Minute

// Start runs a control plane for one test. Its files are kept if the test fails.
//
// A control plane takes seconds to start: packages with several tests should share one through Main.
func Start(t *testing.T, options Options) *Env {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), setupLimit)
	defer cancel()
	e, err := New(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(e.describeLogs())
			return
		}
		e.remove()
	})
	return e
}

// Main runs the tests of a package against one control plane and returns the exit code for os.Exit:
//
//	func TestMain(m *testing.M) { os.Exit(env.Main(m, env.Options{}, setup)) }
//
// setup starts whatever else the tests need and stores the Env for them. It runs once, before the first test.
func Main(m *testing.M, options Options, setup func(context.Context, *Env) error) int {
	// Without a logger, controller-runtime's clients print a warning with a stack.
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	e, err := New(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := 1
	if err := setup(ctx, e); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	if err := e.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, e.describeLogs())
		return code
	}
	e.remove()
	return 0
}

// Eventually fails the test unless check returns nil before the limit. The failure reports the last error of check.
func Eventually(t *testing.T, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := Poll(ctx, what, check); err != nil {
		t.Fatal(err)
	}
}

// remove deletes the files after a passed test, unless the caller chose the directory.
func (e *Env) remove() {
	if e.options.temporary {
		// A file left in the temporary directory does not fail the test.
		_ = os.RemoveAll(e.Dir)
	}
}

// describeLogs quotes the end of every log: readers of CI output have no access to the directory.
func (e *Env) describeLogs() string {
	var text strings.Builder
	text.WriteString("logs are kept in " + e.LogDir())
	files, _ := filepath.Glob(e.path("logs", "*.log")) // the pattern is well-formed
	for _, file := range files {
		fmt.Fprintf(&text, "\n%s:\n%s", filepath.Base(file), process.Tail(file, 8))
	}
	return text.String()
}
