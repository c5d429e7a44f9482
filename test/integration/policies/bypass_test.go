package policies_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	cloudv1 "quaymaster.dev/api/mycloud/v1"
	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/mycloud/cloudapi"
	"quaymaster.dev/provider/ownership"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// configured is the condition of a Service about its load balancer.
const configured = "quaymaster.dev/LoadBalancerConfigured"

// balancers returns the cloud's load balancers of a Service.
func (s *space) balancers(ctx context.Context, cloud *cloudapi.Client, svc *corev1.Service) ([]cloudv1.LoadBalancer, error) {
	list, err := cloud.ListLoadBalancers(ctx, cloudapi.ListOptions{Tags: map[string]string{ownership.ServiceUID: string(svc.UID)}})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// balancer returns the only load balancer of a Service once its only listener has this limit and its pool this
// algorithm.
func (s *space) balancer(cloud *cloudapi.Client, svc *corev1.Service, qps int, algorithm string) cloudv1.LoadBalancer {
	s.t.Helper()
	var found cloudv1.LoadBalancer
	env.Eventually(s.t, soon, "the load balancer of "+svc.Name, func(ctx context.Context) error {
		all, err := s.balancers(ctx, cloud, svc)
		if err != nil {
			return err
		}
		if len(all) != 1 {
			return fmt.Errorf("%d load balancers", len(all))
		}
		found = all[0]
		if got := found.Listeners[0].MaxQPS; got != qps {
			return fmt.Errorf("%d QPS, want %d", got, qps)
		}
		if got := found.Pools[0].Algorithm; got != algorithm {
			return fmt.Errorf("algorithm %s, want %s", got, algorithm)
		}
		return nil
	})
	return found
}

// says waits until a Service has this condition, as text.
func (s *space) says(name, want string) {
	s.t.Helper()
	env.Eventually(s.t, soon, "the condition of "+name, func(context.Context) error {
		if diff := cmp.Diff(want, condition(s.get(name).Status.Conditions, configured)); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

// The controllers complete and validate what has bypassed admission.
func TestAdmissionIsBypassed(t *testing.T) {
	s := newSpace(t, shared.Env, "bypass", "tier=shared", unreviewed+"=")
	s.apply(example(t, "policy-cluster.yaml"))
	s.must(example(t, "policy-namespace.yaml"), "apply", "-f", "-")
	s.violating("shared", 0, 0)

	silent := s.create(s.service("silent"))
	if len(silent.Annotations) != 0 {
		t.Fatalf("admission added %v", silent.Annotations)
	}
	s.balancer(shared.cloud, silent, 8000, "round_robin")
	if got := s.annotations("silent"); len(got) != 0 {
		t.Errorf("the controllers added %v", got)
	}

	big := s.create(s.service("big", builder.DLB("listener-maxqps", "30000")))
	s.says("big", "False InvalidConfiguration: "+tooMuch)
	s.event("Service", "big", `^Warning SyncLoadBalancerFailed: .*exceeds the maximum of 20000 set by ClusterLoadBalancerPolicy "shared"`)
	if all, err := s.balancers(t.Context(), shared.cloud, big); err != nil || len(all) != 0 {
		t.Errorf("%d load balancers, %v", len(all), err)
	}
	s.violating("shared", 1, 2)
	s.must("", "annotate", "--overwrite", "service", "big", maxQPS+"=20000")
	s.balancer(shared.cloud, big, 20000, "round_robin")
	s.violating("shared", 0, 2)
}

// passes returns how many passes the service controller has finished. Those that change nothing leave no other trace.
func (s *space) passes(ctx context.Context) (int, error) {
	metrics, err := s.metrics()
	if err != nil {
		return 0, err
	}
	text, err := metrics(ctx)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(valueOf(text, `workqueue_work_duration_seconds_count{name="service-lb-controller"}`))
}

// A policy that becomes stricter changes no load balancer and blocks no deployment.
func TestPolicyBecomesStricter(t *testing.T) {
	s := newSpace(t, shared.Env, "stricter")
	s.apply(s.limit("strict", "Deny", 20000))
	s.known(`ClusterLoadBalancerPolicy "strict"`, "30000")
	web := s.create(s.service("web", builder.DLB("listener-maxqps", "15000")))
	before := s.balancer(shared.cloud, web, 15000, "round_robin")
	s.says("web", fmt.Sprintf("True Configured: load balancer %s (%s) is configured as requested", before.Name, before.ID))

	s.apply(s.limit("strict", "Deny", 1000))
	s.known(`ClusterLoadBalancerPolicy "strict"`, "1500")
	s.violating("strict", 1, 1)

	done, err := s.passes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	warned := "Warning: allowed because it was already set: metadata.annotations[" + maxQPS + `]: Invalid value: "15000": ` +
		"exceeds the maximum of 1000 set by ClusterLoadBalancerPolicy \"strict\" (tcp/80); lower the value\n"
	want := env.Output{Stdout: "service/web annotated\n", Stderr: warned}
	if diff := cmp.Diff(want, s.user("", "annotate", "service", "web", "example.com/note=seen")); diff != "" {
		t.Errorf("a note (-want +got):\n%s", diff)
	}
	env.Eventually(t, soon, "another pass", func(ctx context.Context) error {
		now, err := s.passes(ctx)
		if err == nil && now <= done {
			err = fmt.Errorf("%d passes, as before", now)
		}
		return err
	})
	if after := s.balancer(shared.cloud, web, 15000, "round_robin"); after.Revision != before.Revision {
		t.Errorf("the load balancer went from revision %s to %s", before.Revision, after.Revision)
	}

	if diff := cmp.Diff(want, s.user("", "annotate", "service", "web", scheduler+"=least-connections")); diff != "" {
		t.Errorf("another change (-want +got):\n%s", diff)
	}
	after := s.balancer(shared.cloud, web, 15000, "least_connections")
	if after.ID != before.ID || after.VIPs[0].Address != before.VIPs[0].Address {
		t.Errorf("load balancer %s at %v, want %s at %v", after.ID, after.VIPs, before.ID, before.VIPs)
	}
	s.says("web", fmt.Sprintf("True Configured: load balancer %s (%s) is configured as requested", before.Name, before.ID))

	out := s.user("", "annotate", "--overwrite", "service", "web", maxQPS+"=14000")
	if out.Code != 1 {
		t.Errorf("another value that breaks the rule: %+v", out)
	}
	s.must("", "annotate", "--overwrite", "service", "web", maxQPS+"=1000")
	s.balancer(shared.cloud, web, 1000, "least_connections")
	status := s.violating("strict", 0, 1)
	if got := condition(status.Conditions, v1alpha1.ConditionCompliant); got != "True Compliant: no Service breaks a rule" {
		t.Errorf("condition %s", got)
	}
}
