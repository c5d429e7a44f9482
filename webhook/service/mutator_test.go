package service_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/test/harness/admission"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/service"
)

func mutator() webhook.Admitter {
	return service.NewMutator(service.Options{Reviewer: reviewer, Policies: policies{}})
}

func TestMutatorPatches(t *testing.T) {
	const (
		recordOfBoth = prefix + "listener-idle-timeout=built-in," + prefix + "listener-maxqps=built-in"
		recordOfIdle = prefix + "listener-idle-timeout=built-in"

		wholeMap = `[{"op":"add","path":"/metadata/annotations","value":{"quaymaster.dev/defaulted":"` + recordOfBoth + `","` + prefix + `listener-idle-timeout":"60s","` + prefix + `listener-maxqps":"10000"}}]`
		addIdle  = `{"op":"add","path":"/metadata/annotations/service.beta.kubernetes.io~1dlb-listener-idle-timeout","value":"60s"}`
		record   = `{"op":"add","path":"/metadata/annotations/quaymaster.dev~1defaulted","value":"`
		addQPS   = `{"op":"add","path":"/metadata/annotations/service.beta.kubernetes.io~1dlb-listener-maxqps","value":"10000"}`
	)
	const both = "quaymaster.dev/defaulted=" + recordOfBoth + "," + prefix + "listener-idle-timeout=60s," + prefix + "listener-maxqps=10000"
	tests := map[string]struct {
		request *admissionv1.AdmissionRequest
		patch   string
		audit   string
	}{
		"no annotations":    {create(manifest{name: "web"}), wholeMap, both},
		"null annotations":  {create(manifest{name: "web", annotations: "null"}), wholeMap, both},
		"empty annotations": {create(manifest{name: "web", annotations: "{}"}), "[" + record + recordOfBoth + `"},` + addIdle + "," + addQPS + "]", both},
		"other annotations": {create(manifest{name: "web", annotations: `{"team":"a"}`}), "[" + record + recordOfBoth + `"},` + addIdle + "," + addQPS + "]", both},
		"one present": {
			create(manifest{name: "web", annotations: `{"` + prefix + `listener-maxqps":"5"}`}), "[" + record + recordOfIdle + `"},` + addIdle + "]",
			"quaymaster.dev/defaulted=" + recordOfIdle + "," + prefix + "listener-idle-timeout=60s",
		},
		"invalid values, which the validator reports": {
			create(manifest{name: "web", annotations: `{"` + prefix + `listener-maxqps":"many","` + prefix + `listener-idle-timeout":""}`}), "", "",
		},
		"all present": {
			create(manifest{name: "web", annotations: `{"` + prefix + `listener-maxqps":"5","` + prefix + `listener-idle-timeout":"2s"}`}), "", "",
		},
		"becomes a load balancer":     {update(manifest{name: "web", spec: `{"type":"ClusterIP"}`}, manifest{name: "web"}), wholeMap, both},
		"was a load balancer before":  {update(manifest{name: "web"}, manifest{name: "web"}), "", ""},
		"no load balancer":            {create(manifest{name: "web", spec: `{"type":"NodePort"}`}), "", ""},
		"another load balancer class": {create(manifest{name: "web", spec: `{"type":"LoadBalancer","loadBalancerClass":"other.io/lb"}`}), "", ""},
		"being deleted":               {create(manifest{name: "web", deletionTimestamp: "2026-01-02T03:04:05Z"}), "", ""},
		"deletion":                    {remove(manifest{name: "web"}), "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := admit(t, mutator(), test.request)
			if err != nil {
				t.Fatal(err)
			}
			want := &admissionv1.AdmissionResponse{Allowed: true}
			if test.patch != "" {
				patchType := admissionv1.PatchTypeJSONPatch
				want.PatchType = &patchType
				want.Patch = []byte(test.patch)
				want.AuditAnnotations = map[string]string{"defaulted": test.audit}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
			if test.patch == "" {
				return
			}
			object := admission.Apply(t, test.request.Object.Raw, got.Patch)
			test.request.Object = runtime.RawExtension{Raw: object}
			again, err := admit(t, mutator(), test.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&admissionv1.AdmissionResponse{Allowed: true}, again); diff != "" {
				t.Errorf("second call (-want +got):\n%s", diff)
			}
		})
	}
}

// A policy's default overrides the built-in one, and an annotation records its origin. Defaults for other clouds are
// written unchanged.
func TestMutatorAppliesPolicies(t *testing.T) {
	all := limits(t, v1alpha1.EnforcementDeny)
	foreign, findings := policy.Compile(&v1alpha1.ClusterLoadBalancerPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"},
		Spec: v1alpha1.ClusterLoadBalancerPolicySpec{LoadBalancerPolicySpec: v1alpha1.LoadBalancerPolicySpec{
			Defaults: map[string]string{"example.com/a.b": `"quoted"`, "team": "mine"},
		}},
	})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	all.all = append(all.all, foreign)
	m := service.NewMutator(service.Options{Reviewer: reviewer, Policies: all})
	request := create(manifest{name: "web", annotations: `{"team":"theirs"}`})
	response, err := admit(t, m, request)
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.Service
	object := admission.Apply(t, request.Object.Raw, response.Patch)
	if err := json.Unmarshal(object, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"example.com/a.b": `"quoted"`, "team": "theirs", prefix + "listener-maxqps": "8000", prefix + "listener-idle-timeout": "60s",
		"quaymaster.dev/defaulted": "example.com/a.b=ClusterLoadBalancerPolicy/shared," + prefix + "listener-idle-timeout=built-in," +
			prefix + "listener-maxqps=LoadBalancerPolicy/limits",
	}
	if diff := cmp.Diff(want, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	request.Object.Raw = object
	again, err := admit(t, m, request)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&admissionv1.AdmissionResponse{Allowed: true}, again); diff != "" {
		t.Errorf("second call (-want +got):\n%s", diff)
	}
}
