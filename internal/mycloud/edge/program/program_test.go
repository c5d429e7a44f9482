package program_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/internal/mycloud/edge/program"
)

func TestRun(t *testing.T) {
	out, err := program.Run(t.Context(), time.Minute, "question", "sh", "-c", "cat; echo ' and more' >&2")
	if out != "question and more" || err != nil {
		t.Errorf("output %q, error %v", out, err)
	}
	_, err = program.Run(t.Context(), time.Minute, "", "sh", "-c", "echo reason; exit 3")
	if err == nil || !strings.Contains(err.Error(), "exit status 3: reason") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := program.Run(ctx, time.Minute, "", "true"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}

// Programs that hang, alone or with what they have started, end with the limit.
func TestRunHangs(t *testing.T) {
	const hangs = "1000"
	for name, command := range map[string][]string{
		"a program":     {"sleep", hangs},
		"with another":  {"sh", "-c", "sleep " + hangs + "; true"},
		"in background": {"sh", "-c", "sleep " + hangs + " & wait"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := program.Run(t.Context(), 100*time.Millisecond, "", command...)
			if err == nil || !strings.Contains(err.Error(), "has not ended within 100ms") {
				t.Errorf("error %v", err)
			}
		})
	}
	// A daemon may keep the output that it has inherited.
	if out, err := program.Run(t.Context(), time.Minute, "", "sh", "-c", "sleep 3 & echo started"); out != "started" || err != nil {
		t.Errorf("output %q, error %v", out, err)
	}
}
