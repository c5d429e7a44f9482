package operations_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/tool/doctor"
	"quaymaster.dev/test/harness/env"
)

const hcloudAlgorithm = "load-balancer.hetzner.cloud/algorithm-type"

// stored is a cluster whose webhooks do not answer, under the failure policy Ignore.
type stored struct {
	*env.Env
	t        *testing.T
	rendered []*unstructured.Unstructured
}

// arguments returns the arguments of a workload of the chart.
func (s *stored) arguments(kind, name string, path ...string) []string {
	s.t.Helper()
	for _, object := range s.rendered {
		if object.GetKind() != kind || object.GetName() != name {
			continue
		}
		containers, _, err := unstructured.NestedSlice(object.Object, append(path, "spec", "template", "spec", "containers")...)
		if err != nil {
			s.t.Fatal(err)
		}
		args, _, err := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
		if err != nil {
			s.t.Fatal(err)
		}
		return args
	}
	s.t.Fatalf("the chart has no %s %s", kind, name)
	return nil
}

// events returns the Events about invalid objects.
func (s *stored) events(ctx context.Context) ([]corev1.Event, error) {
	list := &corev1.EventList{}
	err := s.Client.List(ctx, list)
	return slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return e.Source.Component != "quaymaster-audit" }), err
}

// reported waits until these objects have Events, one each.
func (s *stored) reported(want ...string) {
	s.t.Helper()
	slices.Sort(want)
	env.Eventually(s.t, soon, "Events", func(ctx context.Context) error {
		events, err := s.events(ctx)
		var got []string
		for i := range events {
			got = append(got, events[i].Reason+" "+events[i].InvolvedObject.Name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			err = fmt.Errorf("(-want +got):\n%s", diff)
		}
		return err
	})
}

// shows waits until the controllers serve series.
func (s *stored) shows(port int, want ...string) {
	s.t.Helper()
	env.Eventually(s.t, soon, "metrics", func(ctx context.Context) error {
		text, err := get(ctx, s.Env, port, "/metrics")
		if err != nil {
			return err
		}
		for _, series := range want {
			if !strings.Contains(text, series+"\n") {
				return fmt.Errorf("%s is missing", series)
			}
		}
		return nil
	})
}

// diagnosis returns what the doctor says about stored Services.
func (s *stored) diagnosis() doctor.Result {
	s.t.Helper()
	out, err := program(s.t.Context(), "quayctl", "doctor", "--kubeconfig="+s.AdminKubeconfig, "-o", "json")
	if err != nil {
		s.t.Fatal(err)
	}
	var report struct{ Checks []doctor.Result }
	if err := json.Unmarshal([]byte(out.Stdout), &report); err != nil {
		s.t.Fatalf("%v: %s", err, out.Stderr)
	}
	for _, r := range report.Checks {
		if r.Check == "stored-services" {
			return r
		}
	}
	s.t.Fatalf("no check of stored Services: %s", out.Stdout)
	return doctor.Result{}
}

// Services of any cloud and policies that were admitted without an answer are found by the controllers, by the CronJob of
// quayctl audit and by the doctor, each with the flags and the rights from the chart; and the API server records that it
// got no answer.
func TestStoredWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v := env.Values{
		"cloudController": map[string]any{"enabled": false}, "catalogs": []any{"mycloud", "hcloud"},
		"audit": map[string]any{"enabled": true},
		"webhook": map[string]any{
			"url": "https://127.0.0.1:1",
			"namespaceSelector": map[string]any{"matchExpressions": []any{
				map[string]any{"key": "unchecked", "operator": "DoesNotExist"},
			}},
		},
	}
	s := &stored{Env: env.Start(t, env.Options{Audit: true}), t: t}
	if err := s.InstallChart(ctx, v); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.rendered, err = env.RenderChart(v); err != nil {
		t.Fatal(err)
	}
	bad, foreign, good, unchecked := service("bad"), service("foreign"), service("good"), service("unchecked")
	bad.Annotations = map[string]string{"service.beta.kubernetes.io/dlb-scheduler": "fastest"}
	foreign.Annotations = map[string]string{hcloudAlgorithm: "fastest", "load-balancer.hetzner.cloud/location": "fsn1"}
	unchecked.Namespace, unchecked.Annotations = "unchecked", bad.Annotations
	policy := &v1alpha1.LoadBalancerPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "broken"},
		Spec:       v1alpha1.LoadBalancerPolicySpec{Rules: []v1alpha1.Rule{{Annotation: "example.com/team", Pattern: "("}}},
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unchecked", Labels: map[string]string{"unchecked": ""}}}
	deployment := s.rendered[slices.IndexFunc(s.rendered, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Deployment" && o.GetName() == "quaymaster-controllers"
	})].DeepCopy() // the doctor reads its flags
	for _, object := range []client.Object{namespace, bad, foreign, good, unchecked, policy, deployment} {
		if err := s.Client.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}

	port, err := env.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	path, err := env.Program("quaymaster")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := s.ServiceAccountKubeconfig(ctx, env.Namespace, "quaymaster-controllers")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start("audited", path, append(s.arguments("Deployment", "quaymaster-controllers"), "--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig, "--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port), "--cert-dir="+t.TempDir())...); err != nil {
		t.Fatal(err)
	}
	s.reported("InvalidService bad", "InvalidService foreign", "InvalidLoadBalancerPolicy broken")
	s.shows(port, "quaymaster_reviewed_services 3", `quaymaster_invalid_services{catalog="hcloud"} 1`,
		`quaymaster_invalid_services{catalog="mycloud"} 1`, `quaymaster_invalid_policies{kind="LoadBalancerPolicy"} 1`)

	// The CronJob reports the same errors by the same Events, and the doctor explains them.
	kubeconfig, err = s.ServiceAccountKubeconfig(ctx, env.Namespace, "quaymaster-audit")
	if err != nil {
		t.Fatal(err)
	}
	cron := append(s.arguments("CronJob", "quaymaster-audit", "spec", "jobTemplate"), "--kubeconfig="+kubeconfig)
	run(t, "quayctl", cron, 1, "bad", "foreign")
	s.reported("InvalidService bad", "InvalidService foreign", "InvalidLoadBalancerPolicy broken")
	events, err := s.events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if err := s.Client.Delete(ctx, &events[i]); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "quayctl", cron, 1)
	s.reported("InvalidService bad", "InvalidService foreign")
	if r := s.diagnosis(); r.Level != doctor.Warn || len(r.Details) != 2 ||
		!strings.HasPrefix(r.Found, "admission would deny 2 of 3 stored load balancers by catalogs mycloud,hcloud; requests that the API server has admitted without an answer since it started: ") ||
		strings.HasSuffix(r.Found, ": 0") {
		t.Errorf("the doctor says %+v", r)
	}

	// The API server records that there was no answer.
	log, err := os.ReadFile(s.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	mark := func(line string) bool {
		return strings.Contains(line, `"name":"foreign"`) &&
			strings.Contains(line, `"failed-open.validating.webhook.admission.k8s.io/round_0_index_`) &&
			strings.Contains(line, `":"validate.service.quaymaster.dev"`)
	}
	if !slices.ContainsFunc(strings.Split(string(log), "\n"), mark) {
		t.Error("the audit log of the API server does not record that validate.service.quaymaster.dev failed open")
	}

	foreign.Annotations[hcloudAlgorithm] = "round_robin"
	bad.Annotations = nil
	const repaired = `{"spec":{"rules":[{"annotation":"example.com/team","pattern":"^[a-z]+$"}]}}`
	if err := s.Client.Patch(ctx, policy, client.RawPatch(types.MergePatchType, []byte(repaired))); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{foreign, bad} {
		if err := s.Client.Update(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	s.shows(port, "quaymaster_reviewed_services 3", `quaymaster_invalid_services{catalog="hcloud"} 0`,
		`quaymaster_invalid_services{catalog="mycloud"} 0`, `quaymaster_invalid_policies{kind="LoadBalancerPolicy"} 0`)
	run(t, "quayctl", cron, 0)
	if r := s.diagnosis(); r.Level != doctor.OK || !strings.HasPrefix(r.Found, "all 3 stored load balancers are valid by catalogs ") {
		t.Errorf("the doctor says %+v", r)
	}
}
