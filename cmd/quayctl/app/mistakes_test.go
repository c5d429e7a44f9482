package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	typed = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: LoadBalancer, ports: [{port: 80}]}\n"
	clean = "no problems in 1 Service"
)

// annotated returns a Service of a type with annotations.
func annotated(kind string, keys ...string) string {
	text := "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  annotations:\n"
	for _, key := range keys {
		text += "    " + key + ": round-robin\n"
	}
	return text + "spec: {type: " + kind + ", ports: [{port: 80}]}\n"
}

// What users get wrong every day results in the field, the remedy and an exit code that no script takes for success.
func TestMistakes(t *testing.T) {
	for name, tc := range map[string]struct {
		// files are written to the working directory.
		files, env map[string]string
		args       []string
		code       int
		want       []string
	}{
		"lint an empty file": {
			files: map[string]string{"f.yaml": ""}, args: []string{"lint", "f.yaml"}, code: 2,
			want: []string{"f.yaml: contains no object", "--allow-empty", "nothing to check"},
		},
		"lint an empty file on purpose": {
			files: map[string]string{"f.yaml": ""}, args: []string{"lint", "--allow-empty", "f.yaml"}, code: 0,
			want: []string{"nothing to check"},
		},
		"lint the empty output of a failed command": {
			args: []string{"lint", "-"}, code: 2, want: []string{"contains no object", "set -o pipefail"},
		},
		"lint the error of a failed command": {
			files: map[string]string{"f.yaml": "Error: template failed\n"}, args: []string{"lint", "--allow-empty", "f.yaml"}, code: 2,
			want: []string{"f.yaml: contains no object with a kind; check what wrote it\n", "1 document of unknown kind"},
		},
		"lint a text": {
			files: map[string]string{"f.yaml": "template failed\n"}, args: []string{"lint", "f.yaml"}, code: 2,
			want: []string{"f.yaml:1: must be an object with apiVersion and kind"},
		},
		"lint a missing file": {
			args: []string{"lint", "none.yaml"}, code: 2,
			want: []string{"none.yaml: stat: no such file", "1 part of the input could not be read"},
		},
		"lint a template": {
			files: map[string]string{"f.yaml": "metadata: {name: {{ .Values.name }} }\n"}, args: []string{"lint", "f.yaml"}, code: 2,
			want: []string{"f.yaml:1: must be valid YAML or JSON: invalid map key; this looks like a template; render it first: helm template"},
		},
		"lint a type in other case": {
			files: map[string]string{"f.yaml": strings.Replace(typed, "LoadBalancer", "Loadbalancer", 1)},
			args:  []string{"lint", "f.yaml"}, code: 1,
			want: []string{`f.yaml:4:8: error: spec.type: must be one of`, `did you mean "LoadBalancer"?`},
		},
		"lint a kind in other case": {
			files: map[string]string{"f.yaml": strings.Replace(typed, "Service", "service", 1)},
			args:  []string{"lint", "f.yaml"}, code: 1,
			want: []string{`f.yaml:2:1: error: kind: unknown kind; did you mean "Service"?`, "1 document of unknown kind"},
		},
		"lint an object without kind": {
			files: map[string]string{"f.yaml": strings.Replace(typed, "kind: Service\n", "", 1)},
			args:  []string{"lint", "f.yaml"}, code: 1,
			want: []string{"f.yaml:1:1: error: kind: must be set; add it, for example kind: Service"},
		},
		"lint a Service of another API version": {
			files: map[string]string{"f.yaml": strings.Replace(typed, "v1", "apps/v1", 1)},
			args:  []string{"lint", "f.yaml"}, code: 1,
			want: []string{"f.yaml:1:1: error: apiVersion: must be v1 for kind Service; correct it"},
		},
		"lint a Service of another API": {
			files: map[string]string{"f.yaml": strings.Replace(typed, "v1", "serving.knative.dev/v1", 1)},
			args:  []string{"lint", "f.yaml"}, code: 0, want: []string{"nothing to check; skipped 1 Service"},
		},
		"lint a policy of another version": {
			files: map[string]string{"f.yaml": "apiVersion: quaymaster.dev/v1\nkind: LoadBalancerPolicy\nmetadata: {name: p}\n"},
			args:  []string{"lint", "f.yaml"}, code: 1,
			want: []string{"f.yaml:1:1: error: apiVersion: must be quaymaster.dev/v1alpha1 for kind LoadBalancerPolicy"},
		},
		"lint the values of a chart next to a Service": {
			files: map[string]string{"values.yaml": "replicas: 3\n", "web.yaml": typed}, args: []string{"lint", "."}, code: 0,
			want: []string{clean + "; 1 document of unknown kind"},
		},
		"lint only other objects": {
			files: map[string]string{"f.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"},
			args:  []string{"lint", "f.yaml"}, code: 0, want: []string{"nothing to check; skipped 1 ConfigMap"},
		},
		"lint typos before the name of a setting": {
			files: map[string]string{"f.yaml": annotated("LoadBalancer", "service.beta.kubernetes.io/dbl-scheduler", "DLB-scheduler",
				"service.kubernetes.io/dlb-sheduler", "service.beta.kubernetes.io/DLB-listener-maxqps.80")},
			args: []string{"lint", "f.yaml"}, code: 1,
			want: []string{
				`[service.beta.kubernetes.io/dbl-scheduler]: unknown annotation; did you mean "service.beta.kubernetes.io/dlb-scheduler"?`,
				`[DLB-scheduler]: unknown annotation; did you mean "service.beta.kubernetes.io/dlb-scheduler"?`,
				`[service.kubernetes.io/dlb-sheduler]: unknown annotation; did you mean "service.beta.kubernetes.io/dlb-scheduler"?`,
				`[service.beta.kubernetes.io/DLB-listener-maxqps.80]: unknown annotation; ` +
					`did you mean "service.beta.kubernetes.io/dlb-listener-maxqps.80"?`,
				"4 errors in 1 of 1 Service",
			},
		},
		"lint unknown keys of Quaymaster": {
			files: map[string]string{"f.yaml": annotated("LoadBalancer", "quaymaster.dev/refresh-default", "quaymaster.dev/team")},
			args:  []string{"lint", "f.yaml"}, code: 0,
			want: []string{
				`[quaymaster.dev/refresh-default]: unknown annotation; did you mean "quaymaster.dev/refresh-defaults"?`,
				"[quaymaster.dev/team]: unknown annotation of Quaymaster; remove it", "2 warnings",
			},
		},
		"lint keys of a load balancer on another type": {
			files: map[string]string{"f.yaml": annotated("ClusterIP", "service.beta.kubernetes.io/dlb-scheduler")},
			args:  []string{"lint", "f.yaml"}, code: 0,
			want: []string{"dlb-scheduler]: has no effect on a Service of type ClusterIP; remove it, or set spec.type to LoadBalancer"},
		},
		"lint keys of a load balancer of another class": {
			files: map[string]string{"f.yaml": annotated("LoadBalancer, loadBalancerClass: example.com/x", "service.beta.kubernetes.io/dlb-scheduler")},
			args:  []string{"lint", "f.yaml"}, code: 0,
			want: []string{"dlb-scheduler]: has no effect with spec.loadBalancerClass example.com/x"},
		},
		"lint with a file that contains no policy": {
			files: map[string]string{"f.yaml": typed, "p.yaml": typed}, args: []string{"lint", "f.yaml", "--policy=p.yaml"}, code: 2,
			want: []string{"p.yaml: contains no policy; name a file with a LoadBalancerPolicy or ClusterLoadBalancerPolicy", clean},
		},
		"lint a policy with many mistakes": {
			files: map[string]string{"p.yaml": "apiVersion: quaymaster.dev/v1alpha1\nkind: LoadBalancerPolicy\nmetadata: {name: p}\n" +
				"spec:\n  enforcement: deny\n  defaults: {quaymaster.dev/defaulted: x}\n  rules:\n  - annotation: example.com/none\n" +
				"  - {annotation: example.com/both, forbidden: true, required: true}\n  - {annotation: example.com/min, min: 3, max: 2}\n" +
				"  - {annotation: service.beta.kubernetes.io/dlb-sheduler, required: true}\n"},
			args: []string{"lint", "p.yaml"}, code: 1,
			want: []string{
				`p.yaml:5:3: error: spec.enforcement: must be one of Deny, Warn, Audit; did you mean "Deny"?`,
				"p.yaml:6:14: error: spec.defaults[quaymaster.dev/defaulted]: must not be a default",
				"p.yaml:8:5: error: spec.rules[0]: must set at least one of", "p.yaml:9:36: error: spec.rules[1].forbidden: must not be combined",
				"p.yaml:10:35: error: spec.rules[2].min: must not exceed max, 2; swap the two",
				`spec.rules[3].annotation: unknown annotation of mycloud; did you mean "service.beta.kubernetes.io/dlb-scheduler"?`,
				"6 errors in 1 of 1 LoadBalancerPolicy",
			},
		},
		"name a missing kubeconfig": {
			env: map[string]string{"KUBECONFIG": "/nosuch"}, args: []string{"doctor"}, code: 1,
			want: []string{"KUBECONFIG is /nosuch, which does not exist; correct it, or set --kubeconfig"},
		},
		"name a text as kubeconfig": {
			files: map[string]string{"kc": "just text\n"}, env: map[string]string{"KUBECONFIG": "kc"}, args: []string{"plan", "--cloud-config=c"},
			code: 1, want: []string{`error loading config file "kc": must be a kubeconfig; correct the file, --kubeconfig or KUBECONFIG`},
		},
		"name a kubeconfig without a cluster": {
			files: map[string]string{"kc": "apiVersion: v1\nkind: Config\n"}, env: map[string]string{"KUBECONFIG": "kc"}, args: []string{"audit"},
			code: 2, want: []string{"no cluster is configured; set --kubeconfig or KUBECONFIG"},
		},
		"migrate without the other cluster": {
			args: []string{"migrate", "--cloud-config=c"}, code: 2, want: []string{"--from is required", "quaymaster.dev/cluster-uid"},
		},
		"resume until a time in the past": {
			args: []string{"resume", "routes", "--until=2020-01-02T15:04:05Z"}, code: 2,
			want: []string{`--until must be in the future; got "2020-01-02T15:04:05Z"; --for=0s ends a resumption`},
		},
		"explain a misspelled name": {
			args: []string{"explain", "dlb-sheduler"}, code: 1,
			want: []string{`no annotation or finding matches "dlb-sheduler"; did you mean "service.beta.kubernetes.io/dlb-scheduler"?`},
		},
		"explain a key with a misspelled prefix": {
			args: []string{"explain", "service.beta.kubernetes.io/dbl-scheduler"}, code: 1,
			want: []string{`did you mean "service.beta.kubernetes.io/dlb-scheduler"?`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for name, value := range tc.env {
				t.Setenv(name, value)
			}
			for name, text := range tc.files {
				if err := os.WriteFile(filepath.Clean(name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			code, stdout, stderr := run(t, tc.args...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			for _, want := range tc.want {
				if !strings.Contains(stdout+stderr, want) {
					t.Errorf("want %q in\n%s%s", want, stdout, stderr)
				}
			}
		})
	}
}
