package app_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/cmd/quayctl/app"
	"quaymaster.dev/internal/rules/catalog/library"
)

var update = flag.Bool("update", false, "update the expected outputs")

// golden compares output with a file in testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// All output formats show the same findings.
func TestLintOutputs(t *testing.T) {
	const summary = "7 errors and 3 warnings in 3 of 5 objects (3 Services, 1 ClusterLoadBalancerPolicy, " +
		"1 LoadBalancerPolicy); skipped 1 Deployment, 1 Namespace, 1 other Service\n"
	for file, tc := range map[string]struct {
		args   []string
		stderr string
	}{
		"lint.txt":       {args: nil, stderr: summary},
		"lint-color.txt": {args: []string{"--color=always"}, stderr: summary},
		"lint.json":      {args: []string{"-o", "json", "--defaults"}},
		"lint.sarif":     {args: []string{"-o", "sarif"}},
		"lint.github":    {args: []string{"-o", "github"}, stderr: summary},
		"lint-defaults":  {args: []string{"--defaults"}, stderr: summary},
	} {
		t.Run(file, func(t *testing.T) {
			args := append([]string{"lint", "-R", "-f", "testdata/lint", "--policy=testdata/policies.yaml"}, tc.args...)
			code, stdout, stderr := run(t, args...)
			if code != 1 || stderr != tc.stderr {
				t.Errorf("exit code %d, stderr %q", code, stderr)
			}
			if file == "lint.sarif" {
				var indented bytes.Buffer
				if err := json.Indent(&indented, []byte(stdout), "", "  "); err != nil {
					t.Fatal(err)
				}
				stdout = indented.String()
			}
			golden(t, file, stdout)
		})
	}
}

// TestLintHTML: the page has the findings of JSON, and the summary.
func TestLintHTML(t *testing.T) {
	args := []string{"lint", "-R", "-f", "testdata/lint", "--policy=testdata/policies.yaml", "--defaults", "-o"}
	code, page, stderr := run(t, append(args, "html")...)
	if code != 1 || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	_, raw, _ := run(t, append(args, "json")...)
	var want struct {
		Results []struct {
			Findings []struct{ ID, Severity, Remedy string }
			Defaults []struct{ Key string }
		}
	}
	if err := json.Unmarshal([]byte(raw), &want); err != nil {
		t.Fatal(err)
	}
	has := func(text string, n int) {
		t.Helper()
		if got := strings.Count(page, text); got < n || n == 0 {
			t.Errorf("%q is on the page %d times, want %d", text, got, n)
		}
	}
	counts := map[string]int{}
	for _, r := range want.Results {
		for _, f := range r.Findings {
			counts[fmt.Sprintf(`data-severity="%s" data-id="%s"`, f.Severity, f.ID)]++
			counts["Remedy: "+html.EscapeString(strings.Join(strings.Fields(f.Remedy), " "))]++
		}
		for _, d := range r.Defaults {
			counts["admission adds <code>"+d.Key]++
		}
	}
	for text, n := range counts {
		has(text, n)
	}
	has("7 errors and 3 warnings in 3 of 5 objects", 1)
	has("<mark>", 7)
}

func TestLintExitCodes(t *testing.T) {
	const (
		good    = "../../../test/corpus/valid/plain.yaml"
		warned  = "../../../test/corpus/valid/load-balancer-ip.yaml"
		bad     = "../../../test/corpus/invalid/maxqps-empty.yaml"
		missing = "missing.yaml: stat: no such file or directory\n"
		unread  = "; 1 part of the input could not be read\n"
	)
	for name, tc := range map[string]struct {
		args   []string
		code   int
		stderr string
	}{
		"clean":              {[]string{good}, 0, "no problems in 1 Service\n"},
		"warnings are clean": {[]string{"--catalog=mycloud", good, warned}, 0, "1 warning in 1 of 2 Services\n"},
		"an error": {
			[]string{"--catalog=mycloud", good, bad, warned}, 1, "1 error and 1 warning in 2 of 3 Services\n",
		},
		"a version of a catalog": {
			[]string{"--catalogs=hcloud@1.30", "testdata/version.yaml"}, 0, "1 warning in 1 of 1 Service\n",
		},
		"no version of a catalog": {
			[]string{"--catalogs=hcloud@new", good}, 2,
			`quayctl lint: --catalog must have a version such as 1.30 after hcloud@; got "new"; see "quayctl lint --help"` + "\n",
		},
		"a version in the config file": {[]string{"--config=testdata/version-config.yaml", "testdata/version.yaml"}, 0, "1 warning in 1 of 1 Service\n"},
		"unreadable":                   {[]string{"missing.yaml", good}, 2, missing + "no problems in 1 Service" + unread},
		"unreadable and bad":           {[]string{"missing.yaml", "-f", bad}, 2, missing + "1 error in 1 of 1 Service" + unread},
		"unreadable policy":            {[]string{"--policy=missing.yaml", bad}, 2, missing + "1 error in 1 of 1 Service" + unread},
		"no manifest in JSON":          {[]string{"-o", "json", "missing.yaml"}, 2, missing},
		"no input": {
			nil, 2, "quayctl lint: no input: name files, directories, or - for standard input; see \"quayctl lint " +
				"--help\"\n",
		},
		"bad flags": {
			[]string{"-o", "xml", "--color=red", "--catalog=mycloud,x", good}, 2,
			`quayctl lint: --output must be text, json, sarif, github or html; got "xml"; --color must be auto, always or ` +
				`never; got "red"; ` +
				`--catalog must be one or more of ` + strings.Join(library.BuiltIn().Names(), ", ") +
				`; got "x"; see "quayctl lint --help"` + "\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, append([]string{"lint"}, tc.args...)...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if diff := cmp.Diff(tc.stderr, stderr); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
			if name == "no manifest in JSON" && stdout != "{\n  \"results\": []\n}\n" {
				t.Errorf("stdout %q", stdout)
			}
		})
	}
}

func TestLintStandardInput(t *testing.T) {
	bad, err := os.ReadFile("../../../test/corpus/invalid/maxqps-empty.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	cmd := app.NewCommand("quayctl")
	cmd.SetArgs([]string{"lint", "-f", "-"})
	cmd.SetIn(bytes.NewReader(bad))
	cmd.SetOut(&out)
	cmd.SetErr(&stderr)
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.HasPrefix(out.String(), "stdin:") {
		t.Errorf("%v, stdout %q", err, out.String())
	}
}

func TestLintNamespace(t *testing.T) {
	_, stdout, _ := run(t, "lint", "-n", "edge", "--defaults", "testdata/lint/more", "--policy=testdata/policies.yaml")
	if want := "admission adds to Service clean:\n"; !strings.Contains(stdout, want) ||
		strings.Count(stdout, "ClusterLoadBalancerPolicy/edge") != 2 {
		t.Errorf("want the policy's default for both Services; got\n%s", stdout)
	}
}

// SARIF lists each finding of another cloud that occurs as a rule, once and with its page, and no others.
func TestLintSARIFOfOtherClouds(t *testing.T) {
	_, stdout, _ := run(t, "lint", "-o", "sarif", "../../../examples/service-hcloud-bad.yaml")
	var log struct {
		Runs []struct {
			Tool struct {
				Driver struct {
					Rules []struct{ ID, HelpURI string }
				}
			}
			Results []struct{ RuleIndex int }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &log); err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, r := range log.Runs[0].Tool.Driver.Rules {
		pages = append(pages, r.HelpURI)
	}
	const page = "https://quaymaster.dev/docs/reference/catalogs/hcloud.html#"
	if diff := cmp.Diff([]string{page + "hcloud-unknown-key", page + "hcloud-invalid-value"}, pages); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	var indexes []int
	for _, r := range log.Runs[0].Results {
		indexes = append(indexes, r.RuleIndex)
	}
	if diff := cmp.Diff([]int{0, 1, 1, 1}, indexes); diff != "" {
		t.Errorf("indexes (-want +got):\n%s", diff)
	}
}

// The guides state these results of the examples.
func TestLintExamples(t *testing.T) {
	for file, want := range map[string]string{
		"service-bad.yaml":         "4 errors in 1 of 1 Service\n",
		"service-good.yaml":        "no problems in 1 Service\n",
		"service-hcloud-bad.yaml":  "4 errors in 1 of 1 Service\n",
		"service-hcloud-good.yaml": "no problems in 1 Service\n",
	} {
		if _, stdout, stderr := run(t, "lint", "../../../examples/"+file); stderr != want {
			t.Errorf("%s: got %q, want %q\n%s", file, stderr, want, stdout)
		}
	}
}
