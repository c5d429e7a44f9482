package policies_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// A policy on trial changes nothing for users; its author sees which Services it would affect.
func TestAudit(t *testing.T) {
	s := newSpace(t, shared.Env, "audited")
	s.apply(s.limit("trial", "Audit", 2000))
	s.status("trial", func(v1alpha1.PolicyStatus) error { return nil })

	for _, name := range []string{"api", "web"} {
		got := s.user(s.manifest(s.service(name, builder.DLB("listener-maxqps", "3000"))), "create", "-f", "-")
		if diff := cmp.Diff(env.Output{Stdout: "service/" + name + " created\n"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	s.create(s.service("small", builder.DLB("listener-maxqps", "10")))
	status := s.violating("trial", 2, 3)
	violation := func(name string) v1alpha1.Violation {
		return v1alpha1.Violation{
			Namespace: "audited", Name: name, Field: "metadata.annotations[" + maxQPS + "]", Value: "3000",
			Message: "exceeds the maximum of 2000 set by ClusterLoadBalancerPolicy \"trial\" (tcp/80); lower the value",
		}
	}
	if diff := cmp.Diff([]v1alpha1.Violation{violation("api"), violation("web")}, status.Violations); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	conditions := []string{condition(status.Conditions, v1alpha1.ConditionAccepted), condition(status.Conditions, v1alpha1.ConditionCompliant)}
	if diff := cmp.Diff([]string{"True Accepted: every part of the policy applies", "False Violations: 2 of 3 Services break a rule"}, conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	table := regexp.MustCompile(`^NAME +ENFORCEMENT +PRIORITY +SERVICES +VIOLATING +TOTAL MAX QPS +ACCEPTED +AGE\n` +
		`trial +Audit +0 +3 +2 +6010 +True +\d+s\n$`)
	if out := s.admin("", "get", "clbpol", "trial"); !table.MatchString(out.Stdout) {
		t.Errorf("kubectl shows\n%s%s", out.Stdout, out.Stderr)
	}
	s.event(v1alpha1.KindClusterLoadBalancerPolicy, "trial", `^Warning Violations: .* Services break a rule: audited/.*exceeds the maximum of 2000 set`)
	const series = `quaymaster_policy_violating_services{kind="ClusterLoadBalancerPolicy",namespace="audited",policy="trial"}`
	s.metric(series, "2")

	for _, name := range []string{"api", "web"} {
		s.must("", "annotate", "--overwrite", "service", name, maxQPS+"=2000")
	}
	status = s.violating("trial", 0, 3)
	if got := condition(status.Conditions, v1alpha1.ConditionCompliant); got != "True Compliant: no Service breaks a rule" || status.MaxQPS != 4010 {
		t.Errorf("condition %s, %d QPS", got, status.MaxQPS)
	}
	s.event(v1alpha1.KindClusterLoadBalancerPolicy, "trial", `^Normal Compliant: no Service breaks a rule any more`)
	s.metric(series, "")

	if err := s.Client.Delete(t.Context(), s.get("small")); err != nil {
		t.Fatal(err)
	}
	s.violating("trial", 0, 2)
}

// A namespaced policy has the same columns except for the priority.
func TestStatusOfANamespacedPolicy(t *testing.T) {
	s := newSpace(t, shared.Env, "counted")
	const own = "apiVersion: quaymaster.dev/v1alpha1\nkind: LoadBalancerPolicy\nmetadata: {name: own}\n" +
		"spec: {rules: [{annotation: " + maxQPS + ", max: 2000}], enforcement: Audit}"
	still := s.version("mistaken")
	want := env.Output{
		Stdout: "loadbalancerpolicy.quaymaster.dev/own created\n",
		Stderr: "Warning: spec.rules[0].max: Services without the annotation break the rule, because their default is 10000; " +
			"add a default to the policy, unless every Service must set the annotation\n",
	}
	if diff := cmp.Diff(want, s.user(own, "create", "-f", "-")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.create(s.service("web"))
	table := regexp.MustCompile(`^NAME +ENFORCEMENT +SERVICES +VIOLATING +TOTAL MAX QPS +ACCEPTED +AGE\nown +Audit +1 +1 +10000 +True +\d+s\n$`)
	env.Eventually(t, soon, "the counts", func(context.Context) error {
		if out := s.user("", "get", "lbpol"); !table.MatchString(out.Stdout) {
			return fmt.Errorf("kubectl shows\n%s%s", out.Stdout, out.Stderr)
		}
		return nil
	})
	if now := s.version("mistaken"); now != still {
		t.Errorf("an unaffected policy changed from version %s to %s", still, now)
	}
}

// version returns the resourceVersion of a cluster policy, which its status changes, too.
func (s *space) version(policy string) string {
	s.t.Helper()
	is := &v1alpha1.ClusterLoadBalancerPolicy{}
	if err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: policy}, is); err != nil {
		s.t.Fatal(err)
	}
	return is.ResourceVersion
}

// metric waits until the controllers serve a series with a value; an empty value means no series.
func (s *space) metric(series, value string) {
	s.t.Helper()
	metrics, err := s.metrics()
	if err != nil {
		s.t.Fatal(err)
	}
	env.Eventually(s.t, soon, series, func(ctx context.Context) error {
		text, err := metrics(ctx)
		if err != nil {
			return err
		}
		if got := valueOf(text, series); got != value {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// valueOf returns the value of a series in a text of metrics, or an empty string.
func valueOf(text, series string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// metrics returns the metrics of the controllers, which the API server lets the administrator read.
func (s *space) metrics() (func(context.Context) (string, error), error) {
	log, err := os.ReadFile(shared.controllers.Log())
	if err != nil {
		return nil, err
	}
	address := regexp.MustCompile(`Serving securely.*(127\.0\.0\.1:\d+)`).FindSubmatch(log)
	if address == nil {
		return nil, errors.New("the controllers do not say where they serve")
	}
	config := rest.CopyConfig(s.Admin)
	// They have a self-signed certificate.
	config.CAData, config.Insecure = nil, true
	admin, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+string(address[1])+"/metrics", nil)
		if err != nil {
			return "", err
		}
		response, err := admin.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", response.Status, text)
		}
		return string(text), err
	}, nil
}
