package policies_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

// space is the namespace of one test, which cluster policies select by the label team=<name>.
type space struct {
	t *testing.T
	*env.Env
	name string
}

// newSpace creates a namespace with additional labels. Services and policies are deleted with the test; then no request
// of the webhooks and the controllers may have been forbidden.
func newSpace(t *testing.T, e *env.Env, name string, labels ...string) *space {
	t.Helper()
	s := &space{t: t, Env: e, name: name}
	s.make(labels...)
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		t.Helper()
		err := errors.Join(
			e.Client.DeleteAllOf(ctx, &v1alpha1.LoadBalancerPolicy{}, client.InNamespace(name)),
			e.Client.DeleteAllOf(ctx, &corev1.Service{}, client.InNamespace(name)),
		)
		if err != nil {
			t.Errorf("clean up namespace %s: %v", name, err)
		}
		nothingForbidden(t, e)
	})
	return s
}

// make creates the namespace.
func (s *space) make(labels ...string) {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{"team": s.name}}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		namespace.Labels[key] = value
	}
	if err := s.Client.Create(s.t.Context(), namespace); err != nil {
		s.t.Fatal(err)
	}
}

// nothingForbidden searches the logs of both roles for missing rights.
func nothingForbidden(t *testing.T, e *env.Env) {
	t.Helper()
	for _, role := range []string{"webhook", "controllers"} {
		log, err := os.ReadFile(filepath.Join(e.LogDir(), "quaymaster-"+role+".log"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(log) {
			if bytes.Contains(line, []byte("is forbidden")) {
				t.Errorf("the ServiceAccount of the %s lacks rights: %s", role, line)
			}
		}
	}
}

// user and admin run kubectl in the namespace.
func (s *space) user(stdin string, args ...string) env.Output {
	s.t.Helper()
	return s.kubectl(s.DeveloperKubeconfig, stdin, args...)
}

func (s *space) admin(stdin string, args ...string) env.Output {
	s.t.Helper()
	return s.kubectl(s.AdminKubeconfig, stdin, args...)
}

func (s *space) kubectl(kubeconfig, stdin string, args ...string) env.Output {
	s.t.Helper()
	out, err := env.Kubectl(s.t.Context(), kubeconfig, stdin, append(args, "--namespace", s.name)...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// must runs kubectl in the namespace as the user and fails the test unless it succeeds without warnings.
func (s *space) must(stdin string, args ...string) {
	s.t.Helper()
	if out := s.user(stdin, args...); out.Code != 0 || out.Stderr != "" {
		s.t.Fatalf("kubectl %s: %s", strings.Join(args, " "), out.Stderr)
	}
}

// apply applies a manifest as the administrator. A cluster policy is deleted with the test.
func (s *space) apply(manifest string) {
	s.t.Helper()
	if out := s.admin(manifest, "apply", "-f", "-"); out.Code != 0 {
		s.t.Fatalf("kubectl apply: %s", out.Stderr)
	}
	object := &v1alpha1.ClusterLoadBalancerPolicy{}
	if err := yaml.Unmarshal([]byte(manifest), object); err != nil {
		s.t.Fatal(err)
	}
	if object.Kind != v1alpha1.KindClusterLoadBalancerPolicy {
		return
	}
	ctx := context.WithoutCancel(s.t.Context())
	s.t.Cleanup(func() {
		if err := client.IgnoreNotFound(s.Client.Delete(ctx, object)); err != nil {
			s.t.Error(err)
		}
	})
}

// limit returns a policy for this namespace with a maximum of requests.
func (s *space) limit(name, enforcement string, most int) string {
	return fmt.Sprintf(`
apiVersion: quaymaster.dev/v1alpha1
kind: ClusterLoadBalancerPolicy
metadata: {name: %s}
spec:
  namespaceSelector: {matchLabels: {team: %s}}
  rules: [{annotation: %s, max: %d}]
  enforcement: %s
`, name, s.name, maxQPS, most, enforcement)
}

// service returns a Service of the namespace, changed by options.
func (s *space) service(name string, options ...builder.ServiceOption) *corev1.Service {
	svc := builder.Service(options...)
	svc.Namespace, svc.Name, svc.UID = s.name, name, ""
	for i := range svc.Spec.Ports {
		// The API server allocates it.
		svc.Spec.Ports[i].NodePort = 0
	}
	return svc
}

// manifest returns an object as a user has it in a file.
func (s *space) manifest(object any) string {
	s.t.Helper()
	raw, err := yaml.Marshal(object)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(raw)
}

// create creates a Service as the administrator.
func (s *space) create(svc *corev1.Service) *corev1.Service {
	s.t.Helper()
	if err := s.Client.Create(s.t.Context(), svc); err != nil {
		s.t.Fatal(err)
	}
	return svc
}

func (s *space) get(name string) *corev1.Service {
	s.t.Helper()
	svc := &corev1.Service{}
	if err := s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: s.name, Name: name}, svc); err != nil {
		s.t.Fatal(err)
	}
	return svc
}

// becomes waits until admission, according to the policies, sets this limit for a Service of the namespace without
// annotations.
func (s *space) becomes(value string) {
	s.t.Helper()
	env.Eventually(s.t, soon, "the default "+value+" in "+s.name, func(ctx context.Context) error {
		svc := s.service("tried")
		if err := s.Client.Create(ctx, svc, client.DryRunAll); err != nil {
			return err
		}
		if got := svc.Annotations[maxQPS]; got != value {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
}

// known waits until admission validates Services with this limit against a policy: it rejects them, or warns.
func (s *space) known(policy, value string) {
	s.t.Helper()
	env.Eventually(s.t, soon, "the policy "+policy+" at admission", func(ctx context.Context) error {
		manifest := s.manifest(s.service("tried", builder.DLB("listener-maxqps", value)))
		out, err := env.Kubectl(ctx, s.DeveloperKubeconfig, manifest, "create", "--dry-run=server", "-f", "-")
		if err != nil {
			return err
		}
		if !strings.Contains(out.Stderr, policy) {
			return fmt.Errorf("kubectl printed %+v", out)
		}
		return nil
	})
}

// status waits until check accepts the status of a cluster policy.
func (s *space) status(policy string, check func(v1alpha1.PolicyStatus) error) v1alpha1.PolicyStatus {
	s.t.Helper()
	is := &v1alpha1.ClusterLoadBalancerPolicy{}
	env.Eventually(s.t, soon, "status of "+policy, func(ctx context.Context) error {
		if err := s.Client.Get(ctx, client.ObjectKey{Name: policy}, is); err != nil {
			return err
		}
		if is.Status.ObservedGeneration != is.Generation {
			return fmt.Errorf("generation %d has not been observed", is.Generation)
		}
		return check(is.Status)
	})
	return is.Status
}

// violating waits until so many of so many Services break a policy's rules.
func (s *space) violating(policy string, violating, services int64) v1alpha1.PolicyStatus {
	s.t.Helper()
	return s.status(policy, func(is v1alpha1.PolicyStatus) error {
		if is.Violating != violating || is.Services != services {
			return fmt.Errorf("%d of %d Services", is.Violating, is.Services)
		}
		return nil
	})
}

// condition returns the condition of a type as text.
func condition(conditions []metav1.Condition, conditionType string) string {
	c := meta.FindStatusCondition(conditions, conditionType)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// event waits for an Event about an object.
func (s *space) event(kind, name, pattern string) {
	s.t.Helper()
	env.Eventually(s.t, soon, fmt.Sprintf("an Event of %s %s like %q", kind, name, pattern), func(ctx context.Context) error {
		var events corev1.EventList
		if err := s.Client.List(ctx, &events); err != nil {
			return err
		}
		var seen []string
		for _, e := range events.Items {
			if e.InvolvedObject.Kind != kind || e.InvolvedObject.Name != name {
				continue
			}
			text := e.Type + " " + e.Reason + ": " + e.Message
			if regexp.MustCompile(pattern).MatchString(text) {
				return nil
			}
			seen = append(seen, text)
		}
		return fmt.Errorf("there are %q", seen)
	})
}
