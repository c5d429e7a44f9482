// Package webhook_test tests the webhooks on a real API server from the view of users, with the chart's configurations
// and the rights of the chart's ServiceAccount.
package webhook_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

const (
	namespace = "shop"
	// soon bounds how long the API server takes to notice a change of its webhook configurations, with a margin for
	// slow machines.
	soon = 30 * time.Second
)

// fixture is shared by the tests of this package.
type fixture struct {
	*env.Env
	webhook *env.Webhook
	port    int
}

var shared fixture

func TestMain(m *testing.M) { os.Exit(env.Main(m, env.Options{}, setup)) }

func setup(ctx context.Context, e *env.Env) error {
	shared.Env = e
	if err := e.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	// These Services existed before Quaymaster, with all their mistakes.
	for _, name := range []string{"old", "old-deleted"} {
		svc := service(name, builder.DLB("scheduler", "fastest"))
		svc.Finalizers = []string{"example.com/hold"}
		if err := e.Client.Create(ctx, svc); err != nil {
			return err
		}
	}
	var err error
	if shared.port, err = env.FreePort(); err != nil {
		return err
	}
	if err := e.InstallChart(ctx, values(env.WebhookURL(shared.port), "Fail")); err != nil {
		return err
	}
	if shared.webhook, err = e.StartWebhook(ctx, shared.port); err != nil {
		return err
	}
	return env.Poll(ctx, "the API server to call the webhooks", func(ctx context.Context) error {
		if err := e.Client.Create(ctx, service("probe", builder.DLB("scheduler", "fastest")), client.DryRunAll); err == nil {
			return fmt.Errorf("an invalid Service is not rejected yet")
		}
		return e.Client.Create(ctx, service("probe"), client.DryRunAll)
	})
}

// values returns the values of the chart for webhooks at a URL with one failure policy for both.
func values(url, failurePolicy string) env.Values {
	return env.Values{"webhook": map[string]any{
		"url":           url,
		"failurePolicy": map[string]any{"mutateService": failurePolicy, "validateService": failurePolicy},
	}}
}

// service returns a valid Service of the namespace, changed by options.
func service(name string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Namespace, svc.Name, svc.UID = namespace, name, ""
	for i := range svc.Spec.Ports {
		// The API server allocates it.
		svc.Spec.Ports[i].NodePort = 0
	}
	return svc
}

// kubectl runs kubectl as the unprivileged user.
func kubectl(t *testing.T, manifest *corev1.Service, args ...string) env.Output {
	t.Helper()
	stdin := ""
	if manifest != nil {
		raw, err := yaml.Marshal(manifest)
		if err != nil {
			t.Fatal(err)
		}
		stdin = string(raw)
		args = append(args, "-f", "-")
	}
	out, err := env.Kubectl(t.Context(), shared.DeveloperKubeconfig, stdin, append(args, "--namespace", namespace)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refusal returns what kubectl prints for a Service with mistakes: a bullet for each cause, in the engine's words.
func refusal(name string, oldSvc, newSvc *corev1.Service) string {
	causes := causesOf(oldSvc, newSvc)
	head := fmt.Sprintf("The Service %q is invalid: ", name)
	if len(causes) == 1 {
		return head + causes[0] + "\n"
	}
	return head + "\n* " + strings.Join(causes, "\n* ") + "\n"
}

func causesOf(oldSvc, newSvc *corev1.Service) []string {
	var causes []string
	for _, cause := range statusOf(oldSvc, newSvc).Details.Causes {
		causes = append(causes, cause.Field+": "+cause.Message)
	}
	return causes
}

var ours = review.Own("mycloud.io/dlb", true)
