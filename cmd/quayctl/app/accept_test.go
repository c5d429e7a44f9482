package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const knownService = `apiVersion: v1
kind: Service
metadata:
  name: shop
  annotations:
    load-balancer.hetzner.cloud/algorithm-type: fastest
spec: {type: LoadBalancer, ports: [{port: 80}]}
`

// folder changes to a new folder with files.
func folder(t *testing.T, files map[string]string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
}

// Findings that users have accepted do not count, and every output knows them.
func TestLintSuppressions(t *testing.T) {
	annotated := strings.Replace(knownService, "  annotations:", "  annotations:\n    ignore.quaymaster.dev/hcloud-invalid-value: our fork knows it", 1)
	commented := strings.Replace(knownService, "fastest", "fastest # quayctl:ignore hcloud-invalid-value: our fork knows it", 1)
	const config = "ignores: [{paths: [deploy], ids: [hcloud-invalid-value], reason: our fork knows it}]\n"
	const ignored = "no problems in 1 Service; ignored 1 finding\n"
	for name, tc := range map[string]struct {
		service, config string
		args            []string
		code            int
		stderr          string
	}{
		"nothing":               {knownService, "", nil, 1, "1 error in 1 of 1 Service\n"},
		"annotation":            {annotated, "", nil, 0, ignored},
		"comment":               {commented, "", nil, 0, ignored},
		"config":                {knownService, config, nil, 0, ignored},
		"no config":             {knownService, config, []string{"--config="}, 1, "1 error in 1 of 1 Service\n"},
		"severity":              {knownService, "severities: {hcloud-invalid-value: warning}", nil, 0, "1 warning in 1 of 1 Service\n"},
		"catalogs":              {knownService, "catalogs: [metallb]", nil, 0, "no problems in 1 Service\n"},
		"catalogs of the flag":  {knownService, "catalogs: [metallb]", []string{"--catalog=hcloud"}, 1, "1 error in 1 of 1 Service\n"},
		"catalog file":          {knownService, "catalogFiles: [clouds/none.yaml]", nil, 2, "quayctl lint: --catalog-file: clouds/none.yaml: open clouds/none.yaml: no such file or directory; see \"quayctl lint --help\"\n"},
		"missing config":        {knownService, "", []string{"--config=other.yaml"}, 2, "quayctl lint: other.yaml: open other.yaml: no such file or directory; see \"quayctl lint --help\"\n"},
		"mistake in the config": {knownService, "catalog: x", nil, 2, "quayctl lint: .quayctl.yaml:1: catalog: unknown field; did you mean \"catalogs\"?; see \"quayctl lint --help\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"deploy/shop.yaml": tc.service}
			if tc.config != "" {
				files[".quayctl.yaml"] = tc.config
			}
			folder(t, files)
			args := append([]string{"lint", "deploy"}, tc.args...)
			code, _, stderr := run(t, args...)
			if code != tc.code || stderr != tc.stderr {
				t.Errorf("exit code %d, stderr %q; want %d, %q", code, stderr, tc.code, tc.stderr)
			}
			if tc.stderr != ignored {
				return
			}
			// The config file is not a manifest.
			if _, _, stderr := run(t, "lint", "-R", "."); stderr != ignored {
				t.Errorf("the whole folder: %q", stderr)
			}
			for format, want := range map[string]string{"sarif": `"justification":"our fork knows it"`, "json": `"justification": "our fork knows it"`} {
				code, stdout, _ := run(t, append(args, "-o", format, "--sarif-suppressed")...)
				if code != 0 || strings.Count(stdout, want) != 1 {
					t.Errorf("%s: exit code %d\n%s", format, code, stdout)
				}
			}
		})
	}
}

// With a baseline, old findings do not count, and a new one does.
func TestLintBaseline(t *testing.T) {
	folder(t, map[string]string{"deploy/shop.yaml": knownService})
	lint := func(args ...string) (int, string) {
		code, stdout, stderr := run(t, append([]string{"lint", "deploy", "--baseline=known.json"}, args...)...)
		return code, stdout + stderr
	}
	if code, out := lint(); code != 2 || !strings.Contains(out, "write it with --write-baseline") {
		t.Errorf("without a baseline: exit code %d, %s", code, out)
	}
	for _, args := range [][]string{{"--write-baseline"}, nil} {
		if code, out := lint(args...); code != 0 || out != "no problems in 1 Service; ignored 1 finding\n" {
			t.Errorf("%v: exit code %d, %s", args, code, out)
		}
	}
	if code, _, stderr := run(t, "lint", ".", "-R", "--baseline=./known.json"); code != 0 || strings.Contains(stderr, "unknown kind") {
		t.Errorf("the baseline is read as a manifest: exit code %d, %s", code, stderr)
	}
	changed := strings.Replace(knownService, "    load", "    load-balancer.hetzner.cloud/protocol: tpc\n    load", 1)
	if err := os.WriteFile("deploy/shop.yaml", []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := lint(); code != 1 || !strings.HasPrefix(out, "deploy/shop.yaml:6:5: error:") ||
		!strings.HasSuffix(out, "\n1 error in 1 of 1 Service; ignored 1 finding\n") {
		t.Errorf("a new finding: exit code %d, %s", code, out)
	}
	if err := os.WriteFile("deploy/shop.yaml", []byte(strings.Replace(knownService, "fastest", "round_robin", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	const gone = "known.json: known findings that no longer occur: 1; remove them with --write-baseline\n"
	if code, out := lint(); code != 0 || !strings.HasPrefix(out, gone) {
		t.Errorf("a corrected finding: exit code %d, %s", code, out)
	}
	before, err := os.ReadFile("known.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("deploy/broken.yaml", []byte("a: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := lint("--write-baseline"); code != 2 || !strings.Contains(out, "known.json: not written") {
		t.Errorf("an unreadable file: exit code %d, %s", code, out)
	}
	if after, err := os.ReadFile("known.json"); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the baseline has changed: %v\n%s", err, after)
	}
	if code, _, stderr := run(t, "lint", "deploy", "--write-baseline"); code != 2 || !strings.Contains(stderr, "requires --baseline") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

// A catalog of other objects is used for those that a template names, next to the built-in ones.
func TestLintCatalogOfOtherObjects(t *testing.T) {
	folder(t, map[string]string{
		".quayctl.yaml": "catalogFiles: [gce.yaml]\ntemplates:\n- {group: networking.k8s.io, kind: Ingress, annotations: metadata.annotations, catalogs: [gce]}\n",
		"gce.yaml": "name: gce\ntitle: GCE\ncontroller: example.com/gce\nversion: v1\ndate: \"2026-06-01\"\nkinds: [Ingress]\nhelp: It reports mistakes.\n" +
			"prefixes: [ingress.gcp.kubernetes.io/]\nowns: {anyClass: true}\n---\nannotations:\n- name: ingress.gcp.kubernetes.io/pre-shared-cert\n" +
			"  help: Certificates.\n  type: text\n  onInvalid: refused\n  source: [a.go]\n  valid: a\n",
		"shop.yaml": "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: a\n  annotations:\n    ingress.gcp.kubernetes.io/pre-shared-crt: x\n" +
			"    alb.ingress.kubernetes.io/shceme: internal\n    alb.ingress.kubernetes.io/group.order: 5\n",
	})
	code, stdout, stderr := run(t, "lint", "shop.yaml")
	for _, want := range []string{"shop.yaml:6:5: error: ", "[gce-unknown-key]", "shop.yaml:7:5: error: ", "[alb-unknown-key]"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if code != 1 || strings.Count(stdout, "manifest-invalid") != 1 || stderr != "3 errors in 1 of 1 Ingress\n" {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
}

// Templates of flags and of the config file add up, and what is wrong with one of a flag is wrong usage.
func TestLintServiceTemplates(t *testing.T) {
	object := func(kind string) string {
		return "apiVersion: example.com/v1\nkind: " + kind + "\nmetadata: {name: a}\nspec: {annotations: {load-balancer.hetzner.cloud/lokation: fsn1}}\n---\n"
	}
	folder(t, map[string]string{
		".quayctl.yaml": "templates: [{group: example.com, kind: Shop, annotations: spec.annotations}]\n",
		"f.yaml":        object("Shop") + object("Wall") + object("Door"),
	})
	code, stdout, stderr := run(t, "lint", "f.yaml", `--service-template={"group":"example.com","kind":"Wall","annotations":"spec.annotations"}`)
	if code != 1 || strings.Count(stdout, "hcloud-unknown-key") != 2 || stderr != "2 errors in 2 of 2 objects (1 Shop, 1 Wall); skipped 1 Door\n" {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	if code, _, stderr := run(t, "lint", "f.yaml", "--service-template={}"); code != 2 || !strings.Contains(stderr, "--service-template must have a group") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}
