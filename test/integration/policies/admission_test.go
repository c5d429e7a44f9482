package policies_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// example returns the text of a file in examples.
func example(t *testing.T, name string) string {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tooMuch is kubectl's message for a Service that exceeds the limit of the examples' cluster policy.
const tooMuch = `metadata.annotations[` + maxQPS + `]: Invalid value: "30000": ` +
	`exceeds the maximum of 20000 set by ClusterLoadBalancerPolicy "shared" (tcp/80); ask the platform team for a namespace of its own tier`

// The examples, as used in the guide.
func TestDefaultsAndLimits(t *testing.T) {
	team := newSpace(t, shared.Env, "team", "tier=shared")
	free := newSpace(t, shared.Env, "free")

	team.apply(example(t, "policy-cluster.yaml"))
	team.becomes("5000")
	team.must(example(t, "policy-namespace.yaml"), "apply", "-f", "-")
	team.becomes("8000")

	got := team.user(team.manifest(team.service("web")), "create", "-f", "-")
	if diff := cmp.Diff(env.Output{Stdout: "service/web created\n"}, got); diff != "" {
		t.Errorf("a Service without annotations (-want +got):\n%s", diff)
	}
	want := map[string]string{
		maxQPS: "8000", prefix + "listener-idle-timeout": "60s",
		defaulted: prefix + "listener-idle-timeout=built-in," + maxQPS + "=LoadBalancerPolicy/limits",
	}
	if diff := cmp.Diff(want, team.annotations("web")); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	refused := env.Output{Stderr: `The Service "big" is invalid: ` + tooMuch + "\n", Code: 1}
	big := builder.DLB("listener-maxqps", "30000")
	got = team.user(team.manifest(team.service("big", big)), "create", "-f", "-")
	if diff := cmp.Diff(refused, got); diff != "" {
		t.Errorf("a Service above the limit (-want +got):\n%s", diff)
	}
	got = free.user(free.manifest(free.service("big", big)), "create", "-f", "-")
	if diff := cmp.Diff(env.Output{Stdout: "service/big created\n"}, got); diff != "" {
		t.Errorf("the same in a namespace without the label (-want +got):\n%s", diff)
	}
	team.violating("shared", 0, 1)

	free.admin("", "label", "namespace", "free", "tier=shared")
	free.known(`ClusterLoadBalancerPolicy "shared"`, "30000")
	refused.Stderr = strings.Replace(refused.Stderr, "big", "bigger", 1)
	got = free.user(free.manifest(free.service("bigger", big)), "create", "-f", "-")
	if diff := cmp.Diff(refused, got); diff != "" {
		t.Errorf("another one, now that the namespace has the label (-want +got):\n%s", diff)
	}
	status := free.violating("shared", 1, 2)
	if v := status.Violations[0]; v.Namespace != "free" || v.Name != "big" {
		t.Errorf("the status lists %s/%s", v.Namespace, v.Name)
	}
	got = free.user("", "label", "service", "big", "app=web")
	warned := env.Output{
		Stdout: "service/big labeled\n", Stderr: "Warning: allowed because it was already set: " + tooMuch + "\n",
	}
	if diff := cmp.Diff(warned, got); diff != "" {
		t.Errorf("a change elsewhere (-want +got):\n%s", diff)
	}
}

// The first value that breaks no rule becomes the default, and its policy is recorded with it.
func TestPrecedenceOfDefaults(t *testing.T) {
	s := newSpace(t, shared.Env, "precedence")
	give := func(name, value string, priority int) string {
		return fmt.Sprintf(`
apiVersion: quaymaster.dev/v1alpha1
kind: ClusterLoadBalancerPolicy
metadata: {name: %s}
spec:
  namespaceSelector: {matchLabels: {team: precedence}}
  priority: %d
  defaults: {%s: %q}
`, name, priority, maxQPS, value)
	}
	s.becomes("10000")
	s.apply(give("low", "100", 1))
	s.becomes("100")
	s.apply(give("high", "200", 2))
	s.becomes("200")
	s.apply(s.limit("ceiling", "Deny", 150))
	s.becomes("100")
	if got, want := s.create(s.service("web", builder.DLB("listener-idle-timeout", "9s"))).Annotations[defaulted],
		maxQPS+"=ClusterLoadBalancerPolicy/low"; got != want {
		t.Errorf("%s is %q, want %q", defaulted, got, want)
	}
}

func TestWarn(t *testing.T) {
	s := newSpace(t, shared.Env, "warned")
	s.apply(s.limit("advice", "Warn", 2000))
	s.known(`ClusterLoadBalancerPolicy "advice"`, "3000")
	got := s.user(s.manifest(s.service("web", builder.DLB("listener-maxqps", "3000"))), "create", "-f", "-")
	want := env.Output{
		Stdout: "service/web created\n",
		Stderr: `Warning: metadata.annotations[` + maxQPS + `]: Invalid value: "3000": ` +
			"exceeds the maximum of 2000 set by ClusterLoadBalancerPolicy \"advice\" (tcp/80); lower the value\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	status := s.violating("advice", 1, 1)
	if got := condition(status.Conditions, v1alpha1.ConditionCompliant); got != "False Violations: 1 of 1 Services break a rule" {
		t.Errorf("condition %s", got)
	}
}

// A webhook that is ready knows the policies.
func TestRestartedWebhookKnowsPolicies(t *testing.T) {
	s := newSpace(t, shared.Env, "restarted")
	s.apply(s.limit("known", "Deny", 2000))
	s.known(`ClusterLoadBalancerPolicy "known"`, "3000")
	shared.webhook.Kill()
	if err := shared.webhook.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, "an answer", func(ctx context.Context) error {
		err := s.Client.Create(ctx, s.service("big", builder.DLB("listener-maxqps", "3000")), client.DryRunAll)
		if err == nil {
			t.Error("a Service was admitted without validation against the policy")
			return nil
		}
		if !strings.Contains(err.Error(), "exceeds the maximum of 2000 set by ClusterLoadBalancerPolicy \"known\"") {
			return err // the API server may not trust the new certificate yet
		}
		return nil
	})
}
