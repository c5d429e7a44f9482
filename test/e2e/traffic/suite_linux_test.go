package traffic_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/test/harness/env"
)

// specs is the number of specs of the suite.
const specs = 17

// TestLoadBalancers runs Kubernetes' LoadBalancer suite from outside the cluster. The suite itself cannot tell who
// carries its traffic, because kube-proxy answers for the addresses of load balancers on the nodes. So everything that
// the client is answered has to be counted by the edges, and without edges the specs have to fail.
func TestLoadBalancers(t *testing.T) {
	w := newWorld(t)
	list := w.list()
	if len(list) != specs {
		t.Fatalf("%d specs, want %d: %q", len(list), specs, list)
	}
	answers, sampled := w.answers(), w.sample()
	t.Run("requests", func(t *testing.T) { w.countRequests(t, sampled) })
	answered, accepted := answers(), sampled.sum(t)
	t.Run("suite", func(t *testing.T) {
		slow := "rolling update"
		for name, args := range map[string][]string{
			"rolling update, Cluster": {"--focus", slow + ".*=Cluster"},
			"rolling update, Local":   {"--focus", slow + ".*=Local"},
			"others":                  {"--skip", slow},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if table, err := w.suite(t, name, args...); err != nil {
					t.Errorf("%v\n%s", err, table)
				}
			})
		}
	})
	answered.tcp, answered.udp = answers().tcp-answered.tcp, answers().udp-answered.udp
	now := sampled.sum(t)
	accepted.tcp, accepted.udp = now.tcp-accepted.tcp, now.udp-accepted.udp
	t.Logf("the client was answered %.0f connections and %.0f packets; the edges let %.0f and %.0f through",
		answered.tcp, answered.udp, accepted.tcp, accepted.udp)
	if answered.tcp == 0 || answered.udp == 0 || accepted.tcp < answered.tcp || accepted.udp < answered.udp {
		t.Error("the client was answered more than the edges let through")
	}
	t.Run("without edges", func(t *testing.T) {
		for _, e := range w.edges {
			link, err := e.Links.LinkByName("ext")
			w.must(err)
			w.must(e.Links.LinkSetDown(link))
		}
		for _, spec := range list {
			// These need no edge: one looks at an object only, one asks from pods, where kube-proxy answers.
			if strings.Contains(spec, "finalizer") || strings.Contains(spec, "from pods") {
				continue
			}
			t.Run(spec, func(t *testing.T) {
				t.Parallel()
				table, err := w.suite(t, spec, "--focus", regexp.QuoteMeta(spec))
				if err == nil || !strings.Contains(table, "1 failed") {
					t.Errorf("%v, want a failure\n%s", err, table)
				}
			})
		}
	})
}

func (w *world) list() []string {
	w.Helper()
	return strings.Split(strings.TrimSpace(w.run(w.Context(), w.script("e2e-loadbalancer.sh", "--list"))), "\n")
}

// suite runs specs in the namespace of the client, and returns a table of the results.
func (w *world) suite(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	dir := filepath.Join(w.logs(t), regexp.MustCompile(`[^a-zA-Z0-9=]+`).ReplaceAllString(name, "-"))
	cmd := w.script("e2e-loadbalancer.sh", slices.Concat([]string{"--client-netns", "client", "--out", dir}, args)...)
	out, err := cmd.CombinedOutput()
	table, readErr := os.ReadFile(filepath.Join(dir, "table"))
	if readErr != nil {
		return string(out), readErr
	}
	t.Logf("%s\n%s", name, table)
	if err == nil && strings.Contains(string(table), " skipped") && !strings.Contains(string(table), " 0 skipped") {
		err = fmt.Errorf("specs were skipped")
	}
	return string(table), err
}

// logs returns the folder for the logs of the suite, which remains after the test if E2E_OUT is set.
func (w *world) logs(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("E2E_OUT")
	if dir == "" {
		dir = w.dir
	}
	w.must(os.MkdirAll(dir, 0o755))
	return dir
}

// countRequests sends requests to the pods of the webhooks through a load balancer, and compares their number with what edges let through.
func (w *world) countRequests(t *testing.T, sampled *sampler) {
	const requests = 1000
	w.tool("kubectl", "apply", "-f", w.file("service.yaml", `apiVersion: v1
kind: Service
metadata: {name: readiness, namespace: `+namespace+`}
spec:
  type: LoadBalancer
  selector: {app.kubernetes.io/component: webhook}
  ports: [{port: 80, targetPort: 8081}]
`))
	var address string
	env.Eventually(t, patience, "an address", func(context.Context) error {
		address = w.tool("kubectl", "--namespace", namespace, "get", "service", "readiness", "-o",
			"jsonpath={.status.loadBalancer.ingress[0].ip}")
		if address == "" {
			return errors.New("no address yet")
		}
		return nil
	})
	ask := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		response, err := get(ctx, w.client, "http://"+address+"/readyz")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", response.Status)
		}
		return nil
	}
	env.Eventually(t, patience, "an answer of the address", ask)
	before := sampled.sum(t)
	for i := range requests {
		if err := ask(t.Context()); err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	after := sampled.sum(t)
	if got := after.tcp - before.tcp; got != requests {
		t.Errorf("edges let %.0f connections through, want %d", got, requests)
	}
	w.tool("kubectl", "--namespace", namespace, "delete", "service", "readiness", "--timeout", patience.String())
}
