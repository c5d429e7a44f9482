package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/harness/env"
)

// qps is the annotation that the example policies limit.
const qps = loadbalancer.Prefix + "listener-maxqps"

// tooMuch is the message when web requests 50000, which the cluster's policy does not allow.
const tooMuch = `metadata.annotations[` + qps + `]: Invalid value: "50000": ` +
	`exceeds the maximum of 20000 set by ClusterLoadBalancerPolicy "shared" (tcp/80); ask the platform team for a namespace of ` +
	`its own tier`

func (d *demonstration) setsDefaultsOfPolicies(t *testing.T) {
	d.must(t, "label", "namespace", "default", "tier=shared")
	d.must(t, "apply", "-f", "examples/policy-cluster.yaml")
	d.defaultBecomes(t, "5000")
	d.must(t, "create", "service", "loadbalancer", "api", "--tcp=80")
	d.must(t, "apply", "-f", "examples/policy-namespace.yaml")
	d.defaultBecomes(t, "8000")
	d.must(t, "create", "service", "loadbalancer", "web", "--tcp=80")

	got := map[string][]string{}
	for _, name := range []string{"api", "web"} {
		var service corev1.Service
		if err := d.kube.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &service); err != nil {
			t.Fatal(err)
		}
		got[name] = []string{service.Annotations[qps], policy.Origins(service.Annotations)[qps]}
	}
	want := map[string][]string{
		"api": {"5000", "ClusterLoadBalancerPolicy/shared"}, "web": {"8000", "LoadBalancerPolicy/limits"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("max QPS and its origin (-want +got):\n%s", diff)
	}
	env.Eventually(t, 10*time.Second, "a load balancer for web", func(ctx context.Context) error {
		list, err := d.cloud.ListLoadBalancers(ctx, cloudapi.ListOptions{Name: "dev-default-web"})
		if err != nil {
			return err
		}
		if len(list.Items) != 1 {
			return fmt.Errorf("found %d", len(list.Items))
		}
		if diff := cmp.Diff(map[string]int{"tcp/80": 8000}, maxQPS(&list.Items[0])); diff != "" {
			return fmt.Errorf("max QPS by listener (-want +got):\n%s", diff)
		}
		return nil
	})
}

// defaultBecomes waits until a Service without the annotation would get this limit: the webhook receives policies with
// a delay.
func (d *demonstration) defaultBecomes(t *testing.T, value string) {
	t.Helper()
	env.Eventually(t, 10*time.Second, "the default "+value, func(context.Context) error {
		stored := d.must(t, "create", "service", "loadbalancer", "tried", "--tcp=80", "--dry-run=server", "-o",
			"jsonpath={.metadata.annotations}")
		if !strings.Contains(stored, `"`+qps+`":"`+value+`"`) {
			return errors.New(stored)
		}
		return nil
	})
}

func (d *demonstration) limitsByPolicies(t *testing.T) {
	wanted := []string{"annotate", "--overwrite", "service", "web", qps + "=50000"}
	want := env.Output{Stderr: "The Service \"web\" is invalid: " + tooMuch + "\n", Code: 1}
	if diff := cmp.Diff(want, d.kubectl(t, wanted...)); diff != "" {
		t.Errorf("a limit above the policy's (-want +got):\n%s", diff)
	}
	d.must(t, "create", "namespace", "free")
	d.must(t, "create", "service", "loadbalancer", "web", "--tcp=80", "--namespace=free")
	want = env.Output{Stdout: "service/web annotated\n"}
	if diff := cmp.Diff(want, d.kubectl(t, append(wanted, "--namespace=free")...)); diff != "" {
		t.Errorf("the same in a namespace without the label (-want +got):\n%s", diff)
	}
	d.must(t, "delete", "service", "web", "--namespace=free", "--timeout=30s")
	d.must(t, "delete", "namespace", "free", "--wait=false")
}

func (d *demonstration) enforcesPolicies(t *testing.T) {
	enforce := func(how string) {
		d.must(t, "patch", "clbpol", "shared", "--type=merge", "-p", `{"spec":{"enforcement":"`+how+`"}}`)
	}
	enforce("Warn")
	tried := []string{"annotate", "--overwrite", "service", "web", qps + "=50000"}
	want := env.Output{Stdout: "service/web annotated\n", Stderr: "Warning: " + tooMuch + "\n"}
	env.Eventually(t, 10*time.Second, "a warning", func(context.Context) error {
		if diff := cmp.Diff(want, d.kubectl(t, append(tried, "--dry-run=server")...), ignoreDryRun); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
	if diff := cmp.Diff(want, d.kubectl(t, tried...)); diff != "" {
		t.Errorf("under Warn (-want +got):\n%s", diff)
	}

	enforce("Audit")
	want = env.Output{Stdout: "service/web annotated\n"}
	note := []string{"annotate", "--overwrite", "service", "web", "example.com/note=seen"}
	env.Eventually(t, 10*time.Second, "silence", func(context.Context) error {
		if diff := cmp.Diff(want, d.kubectl(t, append(note, "--dry-run=server")...), ignoreDryRun); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
	d.counts(t, `shared +Audit +0 +3 +1 +62100 +True +\S+`)
	d.must(t, "annotate", "--overwrite", "service", "web", qps+"=8000")
	enforce("Deny")
	d.counts(t, `shared +Deny +0 +3 +0 +20100 +True +\S+`)
}

// ignoreDryRun removes kubectl's mark of a dry run.
var ignoreDryRun = cmp.Transformer("stdout",
	func(text string) string { return strings.Replace(text, " (server dry run)", "", 1) })

// counts waits until kubectl shows this row with the controllers' counts for the cluster's policy.
func (d *demonstration) counts(t *testing.T, row string) {
	t.Helper()
	table := regexp.MustCompile(`^NAME +ENFORCEMENT +PRIORITY +SERVICES +VIOLATING +TOTAL MAX QPS +ACCEPTED +AGE\n` + row +
		`\n$`)
	env.Eventually(t, 10*time.Second, "the counts of the policy", func(context.Context) error {
		if got := d.must(t, "get", "clbpol"); !table.MatchString(got) {
			return errors.New(got)
		}
		return nil
	})
}

func (d *demonstration) deniesBadPolicy(t *testing.T) {
	out := d.feed(t, `
apiVersion: quaymaster.dev/v1alpha1
kind: LoadBalancerPolicy
metadata: {name: contradiction}
spec:
  defaults: {`+qps+`: "9000"}
  rules: [{annotation: `+qps+`, max: 7000}]
`, "apply", "-f", "-")
	if out.Code != 1 {
		t.Errorf("exit code %d, want 1", out.Code)
	}
	for _, want := range []string{"spec.defaults[" + qps + `]: Invalid value: "9000": exceeds the maximum of 7000 set`,
		"spec.rules[0].max"} {
		if !strings.Contains(out.Stderr, want) {
			t.Errorf("kubectl prints\n%s\nwithout %q", out.Stderr, want)
		}
	}
}
