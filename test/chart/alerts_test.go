package chart

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/test/env"
)

// TestAlerts lets Prometheus evaluate the alerts, on series that must make them fire and on series that must not.
func TestAlerts(t *testing.T) {
	promtool, err := env.Tool("promtool")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", filepath.Join("..", "..", "charts", "quaymaster", "files", "alerts.yaml")},
		{"test", "rules", filepath.Join("testdata", "alerts", "alerts.yaml")},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// rules are the relevant fields of the file with the alerts, which is also the spec of a PrometheusRule.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert       string            `json:"alert"`
			Expr        string            `json:"expr"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

func alerts(t *testing.T) rules {
	t.Helper()
	var found rules
	if err := yaml.Unmarshal(readFile(t, "charts", "quaymaster", "files", "alerts.yaml"), &found); err != nil {
		t.Fatal(err)
	}
	return found
}

// readFile reads a file of the repository.
func readFile(t *testing.T, path ...string) []byte {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestRunbooks checks that every alert is tested, has a runbook and links to it.
func TestRunbooks(t *testing.T) {
	var want, tested []string
	for _, group := range alerts(t).Groups {
		for _, rule := range group.Rules {
			want = append(want, rule.Alert)
			tested = append(tested, "alertname: "+rule.Alert)
		}
	}
	var got []string
	for _, match := range regexp.MustCompile(`(?m)^## (Quaymaster\w+)$`).FindAllStringSubmatch(string(readFile(t, "docs", "operations", "alerts.md")), -1) {
		got = append(got, match[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runbooks (-alerts +headings):\n%s", diff)
	}
	tests := string(readFile(t, "test", "chart", "testdata", "alerts", "alerts.yaml"))
	for _, line := range tested {
		if !strings.Contains(tests, line+"\n") {
			t.Errorf("no test contains %q", line)
		}
	}

	objects := render(t, cases()["monitored"])
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "PrometheusRule" })
	spec, _, err := unstructured.NestedMap(objects[i].Object, "spec")
	if err != nil {
		t.Fatal(err)
	}
	var rendered rules
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &rendered); err != nil {
		t.Fatal(err)
	}
	for _, group := range rendered.Groups {
		for _, rule := range group.Rules {
			runbook := "https://quaymaster.dev/docs/operations/alerts.md#" + strings.ToLower(rule.Alert)
			if got := rule.Annotations["runbook_url"]; got != runbook {
				t.Errorf("the runbook of %s is %q, want %q", rule.Alert, got, runbook)
			}
		}
	}
}

// dashboard has the relevant fields of a Grafana dashboard.
type dashboard struct {
	Panels []struct {
		Title   string `json:"title"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

// TestMetricNames checks that alerts, dashboard and code use only documented metrics. TestMetrics checks that the
// processes serve the documented ones.
func TestMetricNames(t *testing.T) {
	expressions := map[string]string{}
	for _, group := range alerts(t).Groups {
		for _, rule := range group.Rules {
			expressions[rule.Alert] = rule.Expr
		}
	}
	config := find[corev1.ConfigMap](t, render(t, cases()["monitored"]), "ConfigMap", release+"-dashboard")
	var shown dashboard
	if err := json.Unmarshal([]byte(config.Data["quaymaster.json"]), &shown); err != nil {
		t.Fatal(err)
	}
	for _, panel := range shown.Panels {
		for _, target := range panel.Targets {
			expressions["panel "+panel.Title] += " + " + target.Expr
		}
	}
	documented := documentedMetrics(t)
	for name, expression := range expressions {
		for _, metric := range metricsOf(expression) {
			if metric != "up" && documented[strings.TrimSuffix(metric, "_bucket")].roles == "" {
				t.Errorf("%s uses %s, which is missing in docs/operations/metrics.md", name, metric)
			}
		}
	}
	source := regexp.MustCompile(`"(quaymaster_[a-z_]+)"`)
	for _, folder := range []string{"webhook", "certs", "controllers", "provider", "internal", "cmd"} {
		for _, match := range source.FindAllSubmatch(goFiles(t, folder), -1) {
			if documented[string(match[1])].roles == "" {
				t.Errorf("%s contains %s, which is missing in docs/operations/metrics.md", folder, match[1])
			}
		}
	}
}

// metricsOf returns the metrics in an expression: the words that are not functions, after labels and durations are
// removed.
func metricsOf(expression string) []string {
	text := regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|(by|without) \([^)]*\)|offset \w+`).ReplaceAllString(expression, " ")
	found := map[string]bool{}
	for _, match := range regexp.MustCompile(`([a-z_]\w*)(\s*\()?`).FindAllStringSubmatch(text, -1) {
		if match[2] == "" && !slices.Contains([]string{"and", "or", "unless", "sum", "min", "max"}, match[1]) {
			found[match[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// documentedMetric is a metric in a table of docs/operations/metrics.md: the roles that serve it, and its labels in
// alphabetical order.
type documentedMetric struct{ roles, labels string }

func documentedMetrics(t *testing.T) map[string]documentedMetric {
	t.Helper()
	found := map[string]documentedMetric{}
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z, ]+) \\|([a-z, ]*)\\|")
	for _, match := range row.FindAllStringSubmatch(string(readFile(t, "docs", "operations", "metrics.md")), -1) {
		labels := slices.Sorted(slices.Values(strings.Fields(strings.ReplaceAll(match[3], ",", " "))))
		found[match[1]] = documentedMetric{roles: match[2], labels: strings.Join(labels, ", ")}
	}
	return found
}

// goFiles returns the concatenated Go files of a folder, except tests.
func goFiles(t *testing.T, folder string) []byte {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	err = filepath.WalkDir(filepath.Join(root, folder), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		raw, err := os.ReadFile(path)
		all = append(all, raw...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
