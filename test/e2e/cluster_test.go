package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quaymaster.dev/test/harness/env"
)

const (
	release   = "quaymaster"
	namespace = "quaymaster-system"
	// promised is how long an installation may take once the images are available.
	promised = 3 * time.Minute
)

// cluster is the cluster of KUBECONFIG.
type cluster struct {
	kubeconfig, root string
	// values is a file with values that depend on the cluster, such as the image and the cloud; empty for none.
	values string
}

// connect returns the cluster, or skips the test if there is none.
func connect(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{kubeconfig: os.Getenv("KUBECONFIG"), values: os.Getenv("E2E_VALUES")}
	if c.kubeconfig == "" {
		t.Skip("KUBECONFIG is not set; see docs/operations/e2e.md")
	}
	var err error
	if c.root, err = env.Root(); err != nil {
		t.Fatal(err)
	}
	if out := c.kubectl(t, "", "get", "nodes"); out.Code != 0 {
		t.Fatalf("the cluster of KUBECONFIG does not respond: %s", out.Stderr)
	}
	installed := c.kubectl(t, "", "get", "validatingwebhookconfigurations", release, "--ignore-not-found", "-o", "name")
	if installed.Stdout != "" {
		t.Fatal("Quaymaster is already installed in the cluster; uninstall it first")
	}
	return c
}

func (c *cluster) kubectl(t *testing.T, stdin string, args ...string) env.Output {
	t.Helper()
	out, err := env.Kubectl(t.Context(), c.kubeconfig, stdin, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// must runs kubectl and ends the test if it fails.
func (c *cluster) must(t *testing.T, args ...string) string {
	t.Helper()
	out := c.kubectl(t, "", args...)
	if out.Code != 0 {
		t.Fatalf("kubectl %s: %s", strings.Join(args, " "), out.Stderr)
	}
	return strings.TrimSpace(out.Stdout)
}

func (c *cluster) helm(t *testing.T, args ...string) string {
	t.Helper()
	path, err := env.Tool("helm")
	if err != nil {
		t.Fatal(err)
	}
	args = append(args, "--kubeconfig", c.kubeconfig, "--namespace", namespace)
	out, err := env.Run(t.Context(), "", path, args...)
	if err != nil {
		t.Fatal(err)
	}
	if out.Code != 0 {
		t.Fatalf("helm %s: %s", strings.Join(args, " "), out.Stderr)
	}
	return out.Stdout
}

// install installs or upgrades the project's chart.
func (c *cluster) install(t *testing.T, verb ...string) {
	t.Helper()
	c.installChart(t, filepath.Join(c.root, "charts", "quaymaster"), verb...)
}

// installChart installs or upgrades a chart, with failure policy Fail, so that Services are never admitted without
// validation.
func (c *cluster) installChart(t *testing.T, chart string, verb ...string) {
	t.Helper()
	args := slices.Concat(verb, []string{release, chart, "--set", "webhook.failurePolicy.validateService=Fail"})
	if c.values != "" {
		args = append(args, "--values", c.values)
	}
	c.helm(t, args...)
}

// uninstall removes the release that a failed test left behind.
func (c *cluster) uninstall() error {
	path, err := env.Tool("helm")
	if err != nil {
		return err
	}
	out, err := env.Run(context.Background(), "", path, "uninstall", release, "--ignore-not-found", "--wait",
		"--kubeconfig", c.kubeconfig, "--namespace", namespace)
	if err == nil && out.Code != 0 {
		err = fmt.Errorf("helm uninstall: %s", out.Stderr)
	}
	return err
}

// eventually calls check until it returns no problem.
func eventually(t *testing.T, limit time.Duration, what string, check func() string) {
	t.Helper()
	env.Eventually(t, limit, what, func(context.Context) error {
		if text := check(); text != "" {
			return fmt.Errorf("%s", text)
		}
		return nil
	})
}

// trouble matches log lines, in either format, that need the attention of an operator.
var trouble = regexp.MustCompile(`^E\d{4} |"level":"error"|is forbidden`)

// errors returns the lines that match trouble in the recent logs of a component.
func (c *cluster) errors(t *testing.T, component string, since time.Duration) []string {
	t.Helper()
	logs := c.must(t, "--namespace", namespace, "logs", "--selector", "app.kubernetes.io/component="+component,
		"--since", since.String(), "--tail", "-1", "--ignore-errors")
	var lines []string
	for scanner := bufio.NewScanner(strings.NewReader(logs)); scanner.Scan(); {
		if trouble.MatchString(scanner.Text()) {
			lines = append(lines, scanner.Text())
		}
	}
	return lines
}

func (c *cluster) example(name string) string { return filepath.Join(c.root, "examples", name) }
