package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

// The process waits as long as it takes. It logs a reason at once, and again every half a minute while it stays.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) { log = append(log, line) }, funcr.Options{}))
		reason, attempts, start := "", 0, time.Now()
		err := await(ctx, "the API server", func(r string) { reason = r }, func(context.Context) error {
			attempts++
			switch passed := time.Since(start); {
			case passed < 2*time.Minute:
				return errors.New("connection refused")
			case passed < 4*time.Minute:
				return errors.New("forbidden")
			}
			return nil
		})
		if err != nil || reason != "waiting for the API server: forbidden" {
			t.Errorf("waited with %v, %q", err, reason)
		}
		if attempts < 24 || attempts > 40 {
			t.Errorf("%d attempts in four minutes", attempts)
		}
		count := func(part string) int {
			return strings.Count(strings.Join(log, "\n"), fmt.Sprintf("Waiting for the API server\" \"reason\"=%q", part))
		}
		if n, m := count("connection refused"), count("forbidden"); n < 3 || n > 5 || m < 3 || m > 5 || len(log) != n+m+1 {
			t.Errorf("log:\n%s", strings.Join(log, "\n"))
		}
	})
}

func TestAwaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wrong := errors.New("it never will")
		if err := await(t.Context(), "it", func(string) {}, func(context.Context) error {
			return finalError{wrong}
		}); !errors.Is(err, wrong) {
			t.Errorf("a final failure ends with %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := await(ctx, "it", func(string) {}, func(context.Context) error {
			return errors.New("not yet")
		}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the end of the context ends with %v", err)
		}
	})
}
