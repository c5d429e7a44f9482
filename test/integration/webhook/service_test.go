package webhook_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"quaymaster.dev/internal/rules/finding"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/builder"
	"quaymaster.dev/test/harness/env"
)

func statusOf(oldSvc, newSvc *corev1.Service) *metav1.Status {
	findings := ours.Review(oldSvc, newSvc, nil)
	return finding.InvalidStatus(schema.GroupKind{Kind: "Service"}, newSvc.Name, findings)
}

// example reads a manifest of examples/.
func example(t *testing.T, name string) *corev1.Service {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	svc := &corev1.Service{}
	if err := yaml.UnmarshalStrict(raw, svc); err != nil {
		t.Fatal(err)
	}
	return svc
}

func get(t *testing.T, name string) *corev1.Service {
	t.Helper()
	svc := &corev1.Service{}
	if err := shared.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, svc); err != nil {
		t.Fatal(err)
	}
	return svc
}

// create creates a Service and deletes it with the test.
func create(t *testing.T, svc *corev1.Service) *corev1.Service {
	t.Helper()
	if err := shared.Client.Create(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	deleteWith(t, svc)
	return svc
}

// deleteWith deletes an object with the test.
func deleteWith(t *testing.T, object client.Object) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(shared.Client.Delete(ctx, object)); err != nil {
			t.Error(err)
		}
	})
}

func TestKubectlShowsEveryMistake(t *testing.T) {
	bad := example(t, "service-bad.yaml")
	for _, verb := range []string{"create", "apply"} {
		t.Run(verb, func(t *testing.T) {
			got := kubectl(t, bad, verb)
			want := env.Output{Stderr: refusal("shop", nil, bad), Code: 1}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("kubectl (-want +got):\n%s", diff)
			}
			if n := len(causesOf(nil, bad)); n != 4 {
				t.Errorf("there are %d causes, want 4", n)
			}
			err := shared.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "shop"}, &corev1.Service{})
			if !apierrors.IsNotFound(err) {
				t.Errorf("something was created: %v", err)
			}
		})
	}
}

func TestStatusOfARefusal(t *testing.T) {
	tests := map[string]func(*corev1.Service){
		"name":         func(svc *corev1.Service) { svc.Name = "web" },
		"generateName": func(svc *corev1.Service) { svc.Name, svc.GenerateName = "", "web-" },
	}
	for name, named := range tests {
		t.Run(name, func(t *testing.T) {
			svc := service("", builder.DLB("listener-maxqps", "many"))
			named(svc)
			err := shared.Client.Create(t.Context(), svc)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("got %v, want 422 Invalid", err)
			}
			got := err.(apierrors.APIStatus).Status()
			// The API server generates a name from generateName before it calls webhooks.
			if !strings.HasPrefix(got.Details.Name, "web") {
				t.Errorf("the Service is called %q", got.Details.Name)
			}
			want := &metav1.StatusDetails{Kind: "Service", Name: got.Details.Name, Causes: statusOf(nil, svc).Details.Causes}
			if diff := cmp.Diff(want, got.Details); diff != "" {
				t.Errorf("details (-want +got):\n%s", diff)
			}
			for _, cause := range causesOf(nil, svc) {
				if !strings.Contains(got.Message, cause) {
					t.Errorf("message %q lacks the cause %q", got.Message, cause)
				}
			}
		})
	}
}

// builtIn records that all built-in defaults were written.
const builtIn = loadbalancer.Prefix + "listener-idle-timeout=built-in," + loadbalancer.Prefix + "listener-maxqps=built-in"

func TestDefaultsAreStored(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		want        map[string]string
	}{
		"no annotations": {nil, map[string]string{
			loadbalancer.Prefix + "listener-maxqps": "10000", loadbalancer.Prefix + "listener-idle-timeout": "60s", policy.AnnotationDefaulted: builtIn,
		}},
		"some of ours and others'": {
			map[string]string{loadbalancer.Prefix + "listener-maxqps": "5", "team": "a"},
			map[string]string{
				loadbalancer.Prefix + "listener-maxqps": "5", "team": "a", loadbalancer.Prefix + "listener-idle-timeout": "60s",
				policy.AnnotationDefaulted: loadbalancer.Prefix + "listener-idle-timeout=built-in",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			svc := service("defaulted")
			svc.Annotations = test.annotations
			create(t, svc)
			if diff := cmp.Diff(test.want, get(t, "defaulted").Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestServiceThatBecomesALoadBalancer(t *testing.T) {
	svc := service("becomes", builder.DLB("scheduler", "fastest"))
	svc.Spec.Type = corev1.ServiceTypeClusterIP
	create(t, svc)

	svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	if err := shared.Client.Update(t.Context(), svc); !apierrors.IsInvalid(err) {
		t.Fatalf("got %v, want a rejection: the mistake matters from now on", err)
	}
	svc.Annotations[loadbalancer.Prefix+"scheduler"] = "source-ip"
	if err := shared.Client.Update(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	if got := get(t, "becomes").Annotations[loadbalancer.Prefix+"listener-maxqps"]; got != "10000" {
		t.Errorf("maxqps is %q, want the default", got)
	}
}

// A default that a user has removed is not added again: defaults are written once.
func TestDefaultsAreNotWrittenAgain(t *testing.T) {
	svc := create(t, service("removed"))
	delete(svc.Annotations, loadbalancer.Prefix+"listener-maxqps")
	if err := shared.Client.Update(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	if value, ok := get(t, "removed").Annotations[loadbalancer.Prefix+"listener-maxqps"]; ok {
		t.Errorf("maxqps is %q again", value)
	}
}

// A write of the status can change annotations, so it must not bypass validation, and immutable values stay.
func TestStatusIsValidated(t *testing.T) {
	svc := create(t, service("status"))
	for name, value := range map[string]string{"scheduler": "fastest", "network-type": "private"} {
		changed := svc.DeepCopy()
		changed.Annotations[loadbalancer.Prefix+name] = value
		if err := shared.Client.Status().Patch(t.Context(), changed, client.MergeFrom(svc)); !apierrors.IsInvalid(err) {
			t.Errorf("%s=%s by a patch of the status: got %v, want a rejection", name, value, err)
		}
		if got, set := get(t, "status").Annotations[loadbalancer.Prefix+name]; set {
			t.Errorf("%s is %s now", name, got)
		}
	}
	changed := svc.DeepCopy()
	changed.Annotations[loadbalancer.Prefix+"scheduler"] = "source-ip"
	changed.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
	if err := shared.Client.Status().Patch(t.Context(), changed, client.MergeFrom(svc)); err != nil {
		t.Errorf("valid annotation and address: %v", err)
	}
}

func TestRatchet(t *testing.T) {
	old := get(t, "old")
	labelled := kubectl(t, nil, "label", "--overwrite", "service", "old", "tier=front")
	want := env.Output{
		Stdout: "service/old labeled\n",
		Stderr: "Warning: " + finding.Warnings(ours.Review(old, old, nil))[0] + "\n",
	}
	if diff := cmp.Diff(want, labelled); diff != "" {
		t.Errorf("a change elsewhere (-want +got):\n%s", diff)
	}

	worse := get(t, "old")
	worse.Annotations[loadbalancer.Prefix+"listener-maxqps"] = "many"
	if err := shared.Client.Update(t.Context(), worse); !apierrors.IsInvalid(err) {
		t.Errorf("a second mistake: got %v, want a rejection", err)
	} else if n := len(err.(apierrors.APIStatus).Status().Details.Causes); n != 1 {
		t.Errorf("a second mistake has %d causes, want the new one alone", n)
	}

	other := get(t, "old")
	other.Annotations[loadbalancer.Prefix+"scheduler"] = "slowest"
	if err := shared.Client.Update(t.Context(), other); !apierrors.IsInvalid(err) {
		t.Errorf("another invalid value: got %v, want a rejection", err)
	}

	fixed := get(t, "old")
	fixed.Annotations[loadbalancer.Prefix+"scheduler"] = "source-ip"
	if err := shared.Client.Update(t.Context(), fixed, client.DryRunAll); err != nil {
		t.Errorf("correcting the mistake: %v", err)
	}
}

// Nothing blocks a deletion: neither existing mistakes nor those that appear when the finalizer is removed.
func TestDeletionPasses(t *testing.T) {
	svc := get(t, "old-deleted")
	if err := shared.Client.Delete(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	svc = get(t, "old-deleted")
	if svc.DeletionTimestamp == nil {
		t.Fatal("the finalizer did not hold")
	}
	svc.Annotations[loadbalancer.Prefix+"listener-maxqps"] = "many"
	svc.Finalizers = nil
	if err := shared.Client.Update(t.Context(), svc); err != nil {
		t.Fatalf("the finalizer cannot go: %v", err)
	}
	err := shared.Client.Get(t.Context(), client.ObjectKeyFromObject(svc), svc)
	if !apierrors.IsNotFound(err) {
		t.Errorf("still there: %v", err)
	}
}

func TestServerSideDryRun(t *testing.T) {
	bad := service("dry", builder.DLB("scheduler", "fastest"))
	if got := kubectl(t, bad, "create", "--dry-run=server"); got.Code != 1 || got.Stderr != refusal("dry", nil, bad) {
		t.Errorf("an invalid Service: got %+v", got)
	}
	got := kubectl(t, service("dry"), "create", "--dry-run=server", "-o", "jsonpath={.metadata.annotations}")
	want := env.Output{Stdout: `{"` + policy.AnnotationDefaulted + `":"` + builtIn + `","` + loadbalancer.Prefix + `listener-idle-timeout":"60s","` + loadbalancer.Prefix + `listener-maxqps":"10000"}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a valid Service (-want +got):\n%s", diff)
	}
	err := shared.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "dry"}, &corev1.Service{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("something was created: %v", err)
	}
}
