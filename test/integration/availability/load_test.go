package availability_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/env"
)

// workers is how many users create Services at the same time.
const workers = 16

const defaulted = "service.beta.kubernetes.io/dlb-listener-maxqps"

// load are users who create good and bad Services all the time, every other one without storing it.
type load struct {
	client client.Client

	mu       sync.Mutex
	attempts int
	problems []string
}

// startLoad begins. What went wrong fails the test when it ends.
func startLoad(t *testing.T, c client.Client) *load {
	t.Helper()
	l := &load{client: c}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	for i := range workers {
		running.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				// Not interrupted, so that every answer counts.
				l.note(l.try(context.WithoutCancel(ctx), fmt.Sprintf("load-%d-%d", i, n), n%2 == 0))
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

func (l *load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts++
	if err != nil {
		l.problems = append(l.problems, err.Error())
	}
}

// more waits for that many further attempts.
func (l *load) more(t *testing.T, n int) {
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

// try creates a good Service, which must be completed, and a bad one, which must be refused for what is bad.
func (l *load) try(ctx context.Context, name string, stored bool) error {
	var options []client.CreateOption
	if !stored {
		options = append(options, client.DryRunAll)
	}
	good := service(name)
	if err := l.client.Create(ctx, good, options...); err != nil {
		return fmt.Errorf("create a good Service: %w", err)
	}
	if good.Annotations[defaulted] == "" {
		return fmt.Errorf("a good Service was not completed: %v", good.Annotations)
	}
	err := l.client.Create(ctx, service(name+"-bad", builder.DLB("scheduler", "fastest")), options...)
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "dlb-scheduler") {
		return fmt.Errorf("create a bad Service: got %w, want it refused", err)
	}
	if stored {
		if err := l.client.Delete(ctx, good); err != nil {
			return fmt.Errorf("delete a Service: %w", err)
		}
	}
	return nil
}

// service is a good one, changed by options.
func service(name string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Namespace, svc.Name, svc.UID = metav1.NamespaceDefault, name, ""
	for i := range svc.Spec.Ports {
		// The API server chooses.
		svc.Spec.Ports[i].NodePort = 0
	}
	return svc
}
