package chart

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/test/harness/env"
)

// TestEdgeAlerts lets Prometheus evaluate the alerts of edges, and checks that each has a runbook and that alerts and
// dashboard use metrics that exist.
func TestEdgeAlerts(t *testing.T) {
	promtool, err := env.Tool("promtool")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "rules", "--lint=all", "--lint-fatal", filepath.Join("..", "..", "..", "examples", "edge", "alerts.yaml")},
		{"test", "rules", filepath.Join("testdata", "alerts", "edges.yaml")},
	} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	var found rules
	if err := yaml.Unmarshal(readFile(t, "examples", "edge", "alerts.yaml"), &found); err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(readFile(t, "examples", "edge", "dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	var want, expressions []string
	for _, group := range found.Groups {
		for _, rule := range group.Rules {
			want, expressions = append(want, rule.Alert), append(expressions, rule.Expr)
		}
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	page := string(readFile(t, "docs", "operations", "edges.md"))
	var got []string
	for _, match := range regexp.MustCompile(`(?m)^## (Mycloud\w+)$`).FindAllStringSubmatch(page, -1) {
		got = append(got, match[1])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runbooks (-alerts +headings):\n%s", diff)
	}
	source := string(readFile(t, "internal", "mycloud", "edge", "agent", "metrics.go"))
	for _, expression := range expressions {
		for _, name := range regexp.MustCompile(`mycloud_edge_\w+`).FindAllString(expression, -1) {
			if !strings.Contains(source, `"`+strings.TrimPrefix(name, "mycloud_edge_")+`"`) && !strings.Contains(source, `"`+name+`"`) {
				t.Errorf("there is no metric %s", name)
			}
			if !strings.Contains(page, "`"+name+"`") {
				t.Errorf("docs/operations/edges.md does not describe %s", name)
			}
		}
	}
}
