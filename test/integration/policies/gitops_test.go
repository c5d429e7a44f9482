package policies_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

const scheme = "example.com/scheme"

// gitOps creates a namespace whose policy sets a default of the DLB and requires one of another cloud.
func gitOps(t *testing.T, name string) *space {
	t.Helper()
	s := newSpace(t, shared.Env, name)
	s.apply(fmt.Sprintf(`
apiVersion: quaymaster.dev/v1alpha1
kind: LoadBalancerPolicy
metadata: {name: inside, namespace: %s}
spec:
  defaults: {%s: "700", %snetwork-type: private, %s: internal}
  rules: [{annotation: %[4]s, required: true}]
`, name, maxQPS, prefix, scheme))
	s.becomes("700")
	return s
}

// given are the defaults of such a namespace.
func given() map[string]string {
	return map[string]string{
		scheme: "internal", maxQPS: "700", prefix + "network-type": "private", prefix + "listener-idle-timeout": "60s",
		defaulted: scheme + "=LoadBalancerPolicy/inside," + prefix + "listener-idle-timeout=built-in," +
			maxQPS + "=LoadBalancerPolicy/inside," + prefix + "network-type=LoadBalancerPolicy/inside",
	}
}

// annotations returns the annotations of a Service without those in which kubectl and Helm record what they applied, and
// the service controller what it manages.
func (s *space) annotations(name string) map[string]string {
	s.t.Helper()
	all := maps.Clone(s.get(name).Annotations)
	maps.DeleteFunc(all, func(key, _ string) bool {
		return slices.ContainsFunc([]string{"kubectl.kubernetes.io/", "meta.helm.sh/", "quaymaster.dev/load-balancer"},
			func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	return all
}

func (s *space) has(name string, want map[string]string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.annotations(name)); diff != "" {
		s.t.Errorf("annotations of %s (-want +got):\n%s", name, diff)
	}
}

// Users who apply a manifest without defaults see no difference afterwards, and keep the defaults.
func TestApplyingAgainChangesNothing(t *testing.T) {
	s := gitOps(t, "applied")
	for name, how := range map[string][]string{"client": nil, "server": {"--server-side"}} {
		t.Run(name+"-side", func(t *testing.T) {
			manifest := s.manifest(s.service(name))
			args := func(verb string) []string { return append([]string{verb, "-f", "-"}, how...) }
			s.must(manifest, args("apply")...)
			s.has(name, given())
			if diff := cmp.Diff(env.Output{}, s.user(manifest, args("diff")...)); diff != "" {
				t.Errorf("kubectl diff (-want +got):\n%s", diff)
			}
			s.must(manifest, args("apply")...)
			s.has(name, given())
			// A change of something else keeps them, too.
			s.must(s.manifest(s.service(name, builder.Annotation("example.com/note", "x"))), args("apply")...)
			want := given()
			want["example.com/note"] = "x"
			s.has(name, want)
			// A key that the manifest gets later is the author's.
			s.must(s.manifest(s.service(name, builder.DLB("listener-maxqps", "300"))), args("apply")...)
			want = given()
			want[maxQPS], want[defaulted] = "300", strings.Replace(want[defaulted], maxQPS+"=LoadBalancerPolicy/inside,", "", 1)
			s.has(name, want)
		})
	}
}

// A manifest that replaces the whole Service lacks what admission added to it, and keeps it.
func TestReplaceKeepsDefaults(t *testing.T) {
	s := gitOps(t, "replaced")
	manifest := s.manifest(s.service("web"))
	s.must(manifest, "create", "-f", "-")
	s.has("web", given())
	for range 2 {
		s.must(manifest, "replace", "-f", "-")
		s.has("web", given())
	}
	s.must(s.manifest(s.service("web", builder.DLB("listener-maxqps", "300"))), "replace", "-f", "-")
	want := given()
	want[maxQPS], want[defaulted] = "300", strings.Replace(want[defaulted], maxQPS+"=LoadBalancerPolicy/inside,", "", 1)
	s.has("web", want)

	s.must(manifest, "replace", "--force", "-f", "-")
	s.has("web", given())

	// Removing only the key is on purpose.
	s.must("", "annotate", "service", "web", prefix+"listener-idle-timeout-")
	s.must(manifest, "replace", "-f", "-")
	want = given()
	delete(want, prefix+"listener-idle-timeout")
	want[defaulted] = strings.Replace(want[defaulted], prefix+"listener-idle-timeout=built-in,", "", 1)
	s.has("web", want)
	out := s.user("", "annotate", "service", "web", scheme+"-")
	if out.Code != 1 || !strings.Contains(out.Stderr, "must be set: required by LoadBalancerPolicy \"inside\"; set the annotation") {
		t.Errorf("removing a required key: %+v", out)
	}
}

// A policy that is created later does not blame the author for a default, and replaces it on request.
func TestRefreshDefaults(t *testing.T) {
	s := newSpace(t, shared.Env, "refreshed")
	s.becomes("10000")
	s.must(s.manifest(s.service("web", builder.DLB("scheduler", "source-ip"))), "create", "-f", "-")
	s.apply(fmt.Sprintf(`
apiVersion: quaymaster.dev/v1alpha1
kind: ClusterLoadBalancerPolicy
metadata: {name: smaller}
spec:
  namespaceSelector: {matchLabels: {team: refreshed}}
  defaults: {%[1]s: "500"}
  rules: [{annotation: %[1]s, max: 600}, {annotation: %[2]s, allowed: [round-robin]}]
`, maxQPS, scheduler))
	s.becomes("500")
	warnings := "Warning: allowed because it was already set: metadata.annotations[" + scheduler + `]: Unsupported value: "source-ip": ` +
		"must be round-robin, as set by ClusterLoadBalancerPolicy \"smaller\" (tcp/80); write round-robin\n"
	ofDefault := "Warning: allowed because it was already set: metadata.annotations[" + maxQPS + `]: Invalid value: "10000": ` +
		`the built-in default exceeds the maximum of 600 set by ClusterLoadBalancerPolicy "smaller" (tcp/80); ` +
		"set the annotation, or change " + refresh + " to get the current default\n"
	want := env.Output{Stdout: "service/web labeled\n", Stderr: ofDefault + warnings}
	if diff := cmp.Diff(want, s.user("", "label", "service", "web", "app=web")); diff != "" {
		t.Errorf("kubectl (-want +got):\n%s", diff)
	}
	want = env.Output{Stdout: "service/web annotated\n", Stderr: warnings}
	if diff := cmp.Diff(want, s.user("", "annotate", "service", "web", refresh+"=1")); diff != "" {
		t.Errorf("kubectl (-want +got):\n%s", diff)
	}
	s.has("web", map[string]string{
		maxQPS: "500", prefix + "listener-idle-timeout": "60s", scheduler: "source-ip", refresh: "1",
		defaulted: prefix + "listener-idle-timeout=built-in," + maxQPS + "=ClusterLoadBalancerPolicy/smaller",
	})
}

// Upgrades of a release leave defaults alone, and also those that replace whole objects keep them.
func TestHelmKeepsDefaults(t *testing.T) {
	s := gitOps(t, "released")
	helm, err := env.Tool("helm")
	if err != nil {
		t.Fatal(err)
	}
	chart := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(chart, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(chart, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n")
	run := func(args ...string) {
		t.Helper()
		out, err := env.Run(t.Context(), "", helm, append(args, "--kubeconfig", s.AdminKubeconfig, "--namespace", s.name)...)
		if err != nil {
			t.Fatal(err)
		}
		if out.Code != 0 {
			t.Fatalf("helm %s: %+v", strings.Join(args, " "), out)
		}
	}
	write("templates/service.yaml", s.manifest(s.service("web")))
	run("install", "web", chart)
	s.has("web", given())
	run("upgrade", "web", chart)
	s.has("web", given())
	write("templates/service.yaml", s.manifest(s.service("web", builder.Annotation("example.com/note", "x"))))
	want := given()
	want["example.com/note"] = "x"
	for _, force := range [][]string{nil, {"--force"}, {"--force"}} {
		run(append([]string{"upgrade", "web", chart}, force...)...)
		s.has("web", want)
	}
}
