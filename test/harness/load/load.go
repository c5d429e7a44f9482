// Package load creates Services continuously for tests of what happens while a component is missing or replaced.
package load

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

const (
	// workers is the number of users that create Services concurrently.
	workers = 16
	// pause is the time between two attempts of a user. Without it, tests that wait keep all cores busy.
	pause = 100 * time.Millisecond
	// soon bounds the wait for further attempts, with a margin for slow machines.
	soon = 30 * time.Second
	// completed is an annotation that admission adds to valid Services.
	completed = "service.beta.kubernetes.io/dlb-listener-maxqps"
)

// Options configure a Load.
type Options struct {
	// Client is the client of the users.
	Client client.Client
	// Stored makes every second Service a real one, which is deleted afterwards. Otherwise all are dry runs.
	Stored bool
}

// Load is a set of users that create valid and invalid Services.
type Load struct {
	mu       sync.Mutex
	attempts int
	problems []string
}

// Start starts the users. Failed attempts fail the test at its end.
func Start(t *testing.T, o Options) *Load {
	t.Helper()
	l := &Load{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	for i := range workers {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				// Attempts are not interrupted, so that every answer counts.
				l.note(Try(context.WithoutCancel(ctx), o.Client, fmt.Sprintf("load-%d-%d", i, n), o.Stored && n%2 == 0))
				time.Sleep(pause)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		t.Logf("%d attempts", l.attempts)
		if len(l.problems) > 0 {
			first := l.problems[:min(5, len(l.problems))]
			t.Errorf("%d of %d attempts failed:\n%s", len(l.problems), l.attempts, strings.Join(first, "\n"))
		}
	})
	return l
}

func (l *Load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts++
	if err != nil {
		l.problems = append(l.problems, err.Error())
	}
}

// More waits for n further attempts.
func (l *Load) More(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.attempts
	}
	until := count() + n
	env.Eventually(t, soon, "further attempts", func(context.Context) error {
		if now := count(); now < until {
			return fmt.Errorf("%d missing", until-now)
		}
		return nil
	})
}

// Try creates a valid Service, which must be completed, and an invalid one, which must be rejected for the right
// reason.
func Try(ctx context.Context, c client.Client, name string, stored bool) error {
	var options []client.CreateOption
	if !stored {
		options = append(options, client.DryRunAll)
	}
	good := Service(name)
	if err := c.Create(ctx, good, options...); err != nil {
		return fmt.Errorf("create a valid Service: %w", err)
	}
	if good.Annotations[completed] == "" {
		return fmt.Errorf("a valid Service was not completed: %v", good.Annotations)
	}
	err := c.Create(ctx, Service(name+"-bad", builder.DLB("scheduler", "fastest")), options...)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "dlb-scheduler") {
		return fmt.Errorf("create an invalid Service: got %w, want it rejected", err)
	}
	if stored {
		if err := c.Delete(ctx, good); err != nil {
			return fmt.Errorf("delete a Service: %w", err)
		}
	}
	return nil
}

// Service returns a valid Service, changed by options.
func Service(name string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Namespace, svc.Name, svc.UID = metav1.NamespaceDefault, name, ""
	for i := range svc.Spec.Ports {
		// The API server allocates it.
		svc.Spec.Ports[i].NodePort = 0
	}
	return svc
}
