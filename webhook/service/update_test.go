package service_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/test/harness/admission"
	"quaymaster.dev/webhook/service"
)

// Updates keep or refresh defaults with one patch operation for each annotation, also while policies are not known.
func TestMutatorUpdatesLoadBalancers(t *testing.T) {
	const (
		qps       = prefix + "listener-maxqps"
		idle      = prefix + "listener-idle-timeout"
		record    = "quaymaster.dev/defaulted"
		refresh   = "quaymaster.dev/refresh-defaults"
		refreshed = `{"` + record + `":"` + qps + `=built-in","` + qps + `":"10000","` + idle + `":"9s","` + refresh + `":"1"}`
	)
	known := limits(t, v1alpha1.EnforcementDeny)
	unknown := policies{err: errors.New("cache is not synced")}
	stored := manifest{name: "web", annotations: `{"` + record + `":"` + qps + `=LoadBalancerPolicy/limits","` + qps + `":"8000"}`}
	builtIn := manifest{name: "web", annotations: `{"` + record + `":"` + qps + `=built-in","` + qps + `":"10000","` + idle + `":"9s"}`}
	byPolicy := map[string]string{record: qps + "=LoadBalancerPolicy/limits", qps: "8000"}
	tests := map[string]struct {
		policies   policies
		old        manifest
		current    string
		want       map[string]string
		operations int
		warnings   []string
	}{
		"replaced":                        {known, stored, "", byPolicy, 1, nil},
		"replaced with other annotations": {known, stored, `{"team":"a"}`, map[string]string{record: byPolicy[record], qps: "8000", "team": "a"}, 2, nil},
		"replaced while they are unknown": {unknown, stored, "", byPolicy, 1, nil},
		"refreshed":                       {known, builtIn, refreshed, map[string]string{record: byPolicy[record], qps: "8000", idle: "9s", refresh: "1"}, 2, nil},
		"not refreshed while they are unknown": {
			unknown, builtIn, refreshed, map[string]string{record: qps + "=built-in", qps: "10000", idle: "9s", refresh: "1"}, 0,
			[]string{"metadata.annotations: defaults were not refreshed, because policies are not available; " +
				"set quaymaster.dev/refresh-defaults to a different value later"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := service.NewMutator(service.Options{Reviewer: reviewer, Policies: test.policies})
			request := update(test.old, manifest{name: "web", annotations: test.current})
			response, err := admit(t, m, request)
			if err != nil {
				t.Fatal(err)
			}
			var operations []json.RawMessage
			object := request.Object.Raw
			if response.Patch != nil {
				if err := json.Unmarshal(response.Patch, &operations); err != nil {
					t.Fatal(err)
				}
				object = admission.Apply(t, object, response.Patch)
			}
			if len(operations) != test.operations {
				t.Errorf("the patch is %s, want %d operations", response.Patch, test.operations)
			}
			if diff := cmp.Diff(test.warnings, response.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			var got corev1.Service
			if err := json.Unmarshal(object, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got.Annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if len(test.warnings) > 0 {
				return
			}
			request.Object.Raw = object
			again, err := admit(t, m, request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&admissionv1.AdmissionResponse{Allowed: true}, again); diff != "" {
				t.Errorf("second call (-want +got):\n%s", diff)
			}
		})
	}
}
