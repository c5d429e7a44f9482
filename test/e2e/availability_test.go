package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/kube/leadership"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/load"
)

// enough is the number of attempts that reaches every replica.
const enough = 200

// TestAvailability replaces all pods while users keep creating Services. Every request must be reviewed, and none may
// fail.
func TestAvailability(t *testing.T) {
	c := connect(t)
	t.Cleanup(func() {
		if err := c.uninstall(); err != nil {
			t.Error(err)
		}
	})
	c.install(t, "install", "--create-namespace")
	c.rolledOut(t)
	config, err := clientcmd.BuildConfigFromFlags("", c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	users, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, promised, "a first Service",
		func(ctx context.Context) error { return load.Try(ctx, users, "first", false) })
	// These are dry runs: otherwise the controllers would create a load balancer for each.
	l := load.Start(t, load.Options{Client: users})
	l.More(t, enough)

	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"rolling restart", func(t *testing.T) {
			c.must(t, "--namespace", namespace, "rollout", "restart", "deployment", release+"-webhook")
		}},
		{"another value", func(t *testing.T) { c.install(t, "upgrade", "--set", "webhook.logVerbosity=1") }},
		// This also reverts the other value, so that pods are replaced.
		{"other definitions", func(t *testing.T) {
			c.installChart(t, c.nextChart(t), "upgrade")
			out := c.kubectl(t, "", "explain", "loadbalancerpolicies.spec.comment")
			if !strings.Contains(out.Stdout, "What it is for.") {
				t.Errorf("the CRD was not updated: %+v", out)
			}
		}},
	} {
		t.Run(step.name, func(t *testing.T) {
			before := c.pods(t)
			step.do(t)
			c.rolledOut(t)
			// The last old pod continues to serve for a while.
			eventually(t, promised, "the end of the old pods", func() string {
				for pod := range strings.FieldsSeq(c.pods(t)) {
					if strings.Contains(before, pod) {
						return pod + " still exists"
					}
				}
				return ""
			})
			l.More(t, enough)
		})
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("leader", func(t *testing.T) { c.killLeader(t, api) })
}

// rolledOut waits until all webhook pods are new and ready.
func (c *cluster) rolledOut(t *testing.T) {
	t.Helper()
	out := c.kubectl(t, "", "--namespace", namespace, "rollout", "status", "deployment", release+"-webhook",
		"--timeout", promised.String())
	if out.Code != 0 {
		t.Fatalf("the webhooks are not ready: %s%s", out.Stdout, out.Stderr)
	}
}

// pods returns the names of the webhook pods, including terminating ones.
func (c *cluster) pods(t *testing.T) string {
	t.Helper()
	return c.must(t, "--namespace", namespace, "get", "pods", "--selector", "app.kubernetes.io/component=webhook", "-o",
		"jsonpath={.items[*].metadata.name}")
}

// nextChart returns a copy of the chart that simulates a later version: its CRDs have an additional field.
func (c *cluster) nextChart(t *testing.T) string {
	t.Helper()
	chart := filepath.Join(t.TempDir(), "quaymaster")
	if err := os.CopyFS(chart, os.DirFS(filepath.Join(c.root, "charts", "quaymaster"))); err != nil {
		t.Fatal(err)
	}
	definitions, err := filepath.Glob(filepath.Join(chart, "files", "crds", "*.yaml"))
	if err != nil || len(definitions) == 0 {
		t.Fatal(definitions, err)
	}
	for _, file := range definitions {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		const first = "              defaults:\n"
		if !strings.Contains(string(text), first) {
			t.Fatalf("%s lacks the line %q", file, first)
		}
		next := strings.Replace(string(text), first,
			"              comment:\n"+
				"                description: What it is for.\n"+
				"                type: string\n"+first, 1)
		if err := os.WriteFile(file, []byte(next), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return chart
}

// killLeader kills the leader. Another pod must become the leader soon after the lease has expired, and must reconcile.
func (c *cluster) killLeader(t *testing.T, api kubernetes.Interface) {
	holder := func() string {
		state, err := leadership.Read(t.Context(), api, leadership.Namespace, leadership.CloudLease)
		if err != nil {
			t.Fatal(err)
		}
		if !state.Held {
			return ""
		}
		return state.Holder
	}
	leader := holder()
	if leader == "" {
		t.Fatal("there is no leader")
	}
	killed := time.Now()
	c.must(t, "--namespace", namespace, "delete", "pod", c.leader(t), "--grace-period=0", "--force")
	eventually(t, promised, "another leader", func() string {
		if now := holder(); now == "" || now == leader {
			return "the holder is " + now
		}
		return ""
	})
	c.must(t, "apply", "-f", c.example("service-good.yaml"))
	eventually(t, promised, "an address", func() string {
		if c.must(t, "get", "service", "shop", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}") == "" {
			return "no address yet"
		}
		return ""
	})
	t.Logf("a new Service had its address %s after the leader was killed", time.Since(killed).Round(time.Second))
	c.must(t, "delete", "service", "shop", "--timeout", "1m")
}

// leader returns the leader's pod, found by its log: with host networking the lease contains the host name, which may
// differ from the Node's name.
func (c *cluster) leader(t *testing.T) string {
	t.Helper()
	pods := c.must(t, "--namespace", namespace, "get", "pods", "--selector", "app.kubernetes.io/component=controllers",
		"-o", "jsonpath={.items[*].metadata.name}")
	for pod := range strings.FieldsSeq(pods) {
		if strings.Contains(c.must(t, "--namespace", namespace, "logs", pod), "Successfully acquired lease") {
			return pod
		}
	}
	t.Fatalf("none of %s holds the lease", pods)
	return ""
}
