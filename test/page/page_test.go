// Package page looks at pages in a browser, that of the cloud and those of findings: as they are shown in two widths and both
// themes, with a keyboard, and with names that are hostile.
package page

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"quaymaster.dev/test/harness/browser"
	"quaymaster.dev/test/harness/cloud"
	"quaymaster.dev/test/harness/env"
	"quaymaster.dev/test/harness/showcase"
)

var screenshots = flag.String("screenshots", "", "folder to keep the screenshots in; a temporary one if empty")

func TestPage(t *testing.T) {
	s := showcase.Start(t)
	s.Beat(t, nil)
	s.Fail(t)
	s.Run(t)
	figures := browser.Look(t, browser.Cloud, *screenshots, map[string]any{
		"endpoint": s.Endpoint, "token": cloud.Token, "search": "payments", "pages": map[string]string{
			"overview": "/ui/", "load-balancers": "/ui/load-balancers", "problems": "/ui/load-balancers?show=problems",
			"load-balancer": "/ui/load-balancers/" + s.Names["shop"], "hostile": "/ui/load-balancers/" + s.Names[showcase.Hostile[0]],
			"faulty": "/ui/load-balancers/" + s.Names["payments"], "edges": "/ui/edges", "edge": "/ui/edges/" + s.EdgeID, "jobs": "/ui/jobs",
			"certificates": "/ui/certificates", "search": "/ui/search?q=script", "none": "/ui/load-balancers?q=nothing", "missing": "/ui/load-balancers/x",
		},
	})
	if legend := figures["legend"]; !strings.Contains(legend, "Accepted") || !strings.Contains(legend, ":") {
		t.Errorf("arrow keys in a plot show %q", legend)
	}
}

// TestFindings: pages of findings, one with findings and one without.
func TestFindings(t *testing.T) {
	quayctl, err := env.Program("quayctl")
	if err != nil {
		t.Fatal(err)
	}
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	page := func(name string, args ...string) string {
		t.Helper()
		out, err := env.Run(t.Context(), "", quayctl, append([]string{"lint", "-o", "html"}, args...)...)
		if err != nil || out.Code > 1 {
			t.Fatal(err, out.Stderr)
		}
		file := filepath.Join(dir, name+".html")
		if err := os.WriteFile(file, []byte(out.Stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file://" + file
	}
	hostile := filepath.Join(dir, "hostile.yaml")
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "x", "namespace": "y", "annotations": map[string]string{
			"service.beta.kubernetes.io/dlb-scheduler": showcase.Hostile[0] + showcase.Hostile[3], "service.beta.kubernetes.io/dlb-listener-maxqps": showcase.Hostile[1],
		}},
		"spec": map[string]any{"type": "LoadBalancer", "ports": []map[string]any{{"port": 80}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hostile, manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	figures := browser.Look(t, browser.Findings, *screenshots, map[string]any{"origin": "file://" + dir, "pages": map[string]string{
		"findings": page("findings", "-R", filepath.Join(root, "examples"), filepath.Join(root, "cmd", "quayctl", "app", "testdata", "lint"), hostile, "--defaults"),
		"clean":    page("clean", filepath.Join(root, "examples", "service-good.yaml")),
	}})
	n := func(name string) int {
		v, err := strconv.Atoi(figures[name])
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return v
	}
	if all, word, errs := n("all"), n("word"), n("errors"); word < 1 || word >= errs || errs >= all || n("link") != errs ||
		figures["status"] != fmt.Sprintf("%d of %d shown", errs, all) {
		t.Errorf("shown: %v", figures)
	}
}
