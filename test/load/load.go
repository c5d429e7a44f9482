// Package load is users who create Services all the time, for tests that take something away meanwhile.
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
	"quaymaster.dev/test/env"
)

const (
	// workers is how many users create Services at the same time.
	workers = 16
	// soon is how long further attempts may take, with room for slow machines.
	soon = 30 * time.Second
	// completed is an annotation that good Services get at admission.
	completed = "service.beta.kubernetes.io/dlb-listener-maxqps"
)

// Options are what a Load needs.
type Options struct {
	// Client is the users'.
	Client client.Client
	// Stored makes every other Service a real one, deleted afterwards. Without it none is stored.
	Stored bool
}

// Load are users who create good and bad Services.
type Load struct {
	mu       sync.Mutex
	attempts int
	problems []string
}

// Start begins. What went wrong fails the test when it ends.
func Start(t *testing.T, o Options) *Load {
	t.Helper()
	l := &Load{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	for i := range workers {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				// Not interrupted, so that every answer counts.
				l.note(Try(context.WithoutCancel(ctx), o.Client, fmt.Sprintf("load-%d-%d", i, n), o.Stored && n%2 == 0))
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
		t.Logf("%d attempts", l.attempts)
		if len(l.problems) > 0 {
			t.Errorf("%d of %d attempts went wrong:\n%s", len(l.problems), l.attempts, strings.Join(l.problems[:min(5, len(l.problems))], "\n"))
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

// More waits for that many further attempts.
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
			return fmt.Errorf("%d are missing", until-now)
		}
		return nil
	})
}

// Try creates a good Service, which must be completed, and a bad one, which must be refused for what is bad.
func Try(ctx context.Context, c client.Client, name string, stored bool) error {
	var options []client.CreateOption
	if !stored {
		options = append(options, client.DryRunAll)
	}
	good := Service(name)
	if err := c.Create(ctx, good, options...); err != nil {
		return fmt.Errorf("create a good Service: %w", err)
	}
	if good.Annotations[completed] == "" {
		return fmt.Errorf("a good Service was not completed: %v", good.Annotations)
	}
	err := c.Create(ctx, Service(name+"-bad", builder.DLB("scheduler", "fastest")), options...)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "dlb-scheduler") {
		return fmt.Errorf("create a bad Service: got %w, want it refused", err)
	}
	if stored {
		if err := c.Delete(ctx, good); err != nil {
			return fmt.Errorf("delete a Service: %w", err)
		}
	}
	return nil
}

// Service is a good one, changed by options.
func Service(name string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Namespace, svc.Name, svc.UID = metav1.NamespaceDefault, name, ""
	for i := range svc.Spec.Ports {
		// The API server chooses.
		svc.Spec.Ports[i].NodePort = 0
	}
	return svc
}
