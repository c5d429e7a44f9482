package chart

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"quaymaster.dev/test/harness/env"
)

// checkObjectsAccepted creates every object of every installation on the API server, which must know all fields.
func checkObjectsAccepted(t *testing.T, e *env.Env) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "default"}}
	if err := e.Client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	for name, values := range cases() {
		t.Run(name, func(t *testing.T) {
			for _, object := range render(t, values) {
				if !served(object) {
					continue
				}
				// The account of a pod must exist, which a dry run does not create.
				if object.GetKind() == "Pod" {
					unstructured.RemoveNestedField(object.Object, "spec", "serviceAccountName")
				}
				err := e.Client.Create(t.Context(), object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
				if client.IgnoreAlreadyExists(err) != nil {
					t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
				}
			}
		})
	}
}

// checkPodSecurity checks which requirements of the Pod Security level restricted the pods violate: only the host
// network is allowed.
func checkPodSecurity(t *testing.T, e *env.Env) {
	const namespace = "restricted"
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}},
	} {
		if err := e.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	const hostNetwork = `violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true), hostPort`
	tests := map[string]map[string]string{
		"webhooks-only":    {"test": "", "webhook": "", "controllers": ""},
		"default":          {"test": "", "webhook": "", "controllers": hostNetwork},
		"controllers-only": {"test": "", "controllers": hostNetwork},
		"self-signed":      {"test": "", "webhook": hostNetwork, "controllers": hostNetwork},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for role, template := range pods(t, render(t, cases()[name])) {
				pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
				pod.Namespace, pod.Name, pod.Spec.ServiceAccountName = namespace, role, ""
				err := e.Client.Create(t.Context(), pod, client.DryRunAll)
				switch {
				case err == nil:
					got[role] = ""
				case !apierrors.IsForbidden(err):
					t.Errorf("%s: %v", role, err)
				case want[role] != "" && strings.Contains(err.Error(), want[role]) && !strings.Contains(err.Error(), "securityContext"):
					got[role] = want[role]
				default:
					got[role] = err.Error()
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rejections by role (-want +got):\n%s", diff)
			}
		})
	}
}
