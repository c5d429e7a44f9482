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

	"quaymaster.dev/test/harness/env"
)

// TestAlerts lets Prometheus evaluate the alerts, on series that must make them fire and on series that must not.
func TestAlerts(t *testing.T) {
	promtool, err := env.Tool("promtool")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", filepath.Join("..", "..", "..", "charts", "quaymaster", "files", "alerts.yaml")},
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
	tests := string(readFile(t, "test", "integration", "chart", "testdata", "alerts", "alerts.yaml"))
	for _, line := range tested {
		if !strings.Contains(tests, line+"\n") {
			t.Errorf("no test contains %q", line)
		}
	}

	for _, group := range rendered(t, cases()["monitored"]).Groups {
		for _, rule := range group.Rules {
			runbook := "https://quaymaster.dev/docs/operations/alerts.html#" + strings.ToLower(rule.Alert)
			if got := rule.Annotations["runbook_url"]; got != runbook {
				t.Errorf("the runbook of %s is %q, want %q", rule.Alert, got, runbook)
			}
		}
	}
}

// TestAlertsFitTheInstallation checks that alerts that would always fire, or fire without a reason, are omitted.
func TestAlertsFitTheInstallation(t *testing.T) {
	tests := map[string]struct {
		webhook map[string]any
		// has lists alerts and whether they are included.
		has map[string]bool
	}{
		"webhooks": {nil, map[string]bool{"QuaymasterWebhookNotCalled": true, "QuaymasterWebhookDown": true}},
		"selected namespaces": {
			map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"team": "edge"}}},
			map[string]bool{"QuaymasterWebhookNotCalled": false, "QuaymasterWebhookDown": true},
		},
		"no webhooks": {
			map[string]any{"enabled": false},
			map[string]bool{"QuaymasterWebhookNotCalled": false, "QuaymasterWebhookDown": false, "QuaymasterControllersDown": true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			values := env.Values{"monitoring": map[string]any{"prometheusRule": map[string]any{"enabled": true}}}
			if test.webhook != nil {
				values["webhook"] = test.webhook
			}
			found := map[string]bool{}
			for _, group := range rendered(t, values).Groups {
				for _, rule := range group.Rules {
					found[rule.Alert] = true
				}
			}
			for alert, want := range test.has {
				if found[alert] != want {
					t.Errorf("%s is included: %t, want %t", alert, found[alert], want)
				}
			}
		})
	}
}

// rendered returns the rules in the PrometheusRule of the chart.
func rendered(t *testing.T, values env.Values) rules {
	t.Helper()
	objects := render(t, values)
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "PrometheusRule" })
	spec, _, err := unstructured.NestedMap(objects[i].Object, "spec")
	if err != nil {
		t.Fatal(err)
	}
	var found rules
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &found); err != nil {
		t.Fatal(err)
	}
	return found
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
			histogram := strings.TrimSuffix(strings.TrimSuffix(metric, "_bucket"), "_count")
			if metric != "up" && documented[metric].roles == "" && documented[histogram].roles == "" {
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
	text := regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|(by|without|on) \([^)]*\)|offset \w+`).ReplaceAllString(expression, " ")
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
	row := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z, -]+) \\|([a-z_, ]*)\\|")
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
