package e2e_test

import (
	"strings"
	"testing"
	"time"

	"quaymaster.dev/test/harness/env"
)

// settled is the time after which no more errors may be logged.
const settled = time.Minute

// TestInstallation covers the first installation by a platform team: on uninitialized nodes, with cert-manager
// installed before or after.
func TestInstallation(t *testing.T) {
	c := connect(t)
	t.Cleanup(func() {
		if err := c.uninstall(); err != nil {
			t.Error(err)
		}
	})
	c.uninitialize(t)
	began := time.Now()
	c.install(t, "install", "--create-namespace")
	eventually(t, promised, "initialized nodes", func() string {
		for _, node := range c.nodes(t) {
			if problem := initialized(&node); problem != "" {
				return "node " + node.Name + " " + problem
			}
		}
		return ""
	})
	left := promised - time.Since(began)
	out := c.kubectl(t, "", "--namespace", namespace, "rollout", "status", "deployment", release+"-webhook",
		"--timeout", left.String())
	if out.Code != 0 {
		t.Fatalf("the webhooks are not ready: %s%s", out.Stdout, out.Stderr)
	}
	t.Logf("ready after %s", time.Since(began).Round(time.Second))

	// API servers reach a Service only after kube-proxy has noticed that its pods are ready.
	eventually(t, promised-time.Since(began), "an answer of the webhooks", func() string {
		out = c.kubectl(t, "", "apply", "-f", c.example("service-bad.yaml"))
		if strings.Contains(out.Stderr, "failed calling webhook") {
			return out.Stderr
		}
		return ""
	})
	if out.Code != 1 || !strings.Contains(out.Stderr, "dlb-scheduler") {
		t.Errorf("an invalid Service: %+v", out)
	}
	c.must(t, "apply", "-f", c.example("service-good.yaml"))
	eventually(t, promised-time.Since(began), "an address", func() string {
		if c.must(t, "get", "service", "shop", "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}") == "" {
			return "no address yet"
		}
		return ""
	})
	c.must(t, "delete", "service", "shop", "--timeout", "1m")
	c.doctor(t)
	c.helm(t, "test", release)

	generations := func() string {
		return c.must(t, "--namespace", namespace, "get", "deployments", "-o",
			"jsonpath={.items[*].metadata.generation}")
	}
	before := generations()
	c.install(t, "upgrade")
	if after := generations(); after != before {
		t.Errorf("an upgrade without changes: generations of the Deployments changed from %s to %s", before, after)
	}

	time.Sleep(settled)
	for _, component := range []string{"webhook", "controllers"} {
		if lines := c.errors(t, component, settled); len(lines) > 0 {
			t.Errorf("the log of %s contains %d errors, first: %s", component, len(lines), lines[0])
		}
	}

	c.helm(t, "uninstall", release, "--wait")
	for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		if left := c.must(t, "get", kind, release, "--ignore-not-found", "-o", "name"); left != "" {
			t.Errorf("%s still exists", left)
		}
	}
}

// TestRemovalWithoutImage uninstalls a release whose pods never started.
func TestRemovalWithoutImage(t *testing.T) {
	c := connect(t)
	t.Cleanup(func() {
		if err := c.uninstall(); err != nil {
			t.Error(err)
		}
	})
	c.install(t, "install", "--create-namespace", "--set", "image.repository=registry.invalid/quaymaster")
	c.helm(t, "uninstall", release, "--timeout", "1m")
}

// doctor fails the test if quayctl doctor finds a problem.
func (c *cluster) doctor(t *testing.T) {
	t.Helper()
	path, err := env.Program("quayctl")
	if err != nil {
		t.Fatal(err)
	}
	out, err := env.Run(t.Context(), "", path, "doctor", "--kubeconfig", c.kubeconfig, "--release-namespace", namespace,
		"--release", release)
	if err != nil {
		t.Fatal(err)
	}
	if out.Code != 0 {
		t.Errorf("quayctl doctor exited with code %d:\n%s%s", out.Code, out.Stdout, out.Stderr)
	}
}
