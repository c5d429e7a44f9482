package service_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/webhook"
	"quaymaster.dev/webhook/service"
)

func validator() webhook.Admitter {
	return service.NewValidator(service.Options{Reviewer: reviewer, Policies: policies{}})
}

func TestValidatorAllows(t *testing.T) {
	const bad = `{"` + prefix + `scheduler":"fastest"}`
	tests := map[string]struct {
		request  *admissionv1.AdmissionRequest
		warnings []string
		audit    map[string]string
	}{
		"good": {request: create(manifest{name: "web", annotations: `{"` + prefix + `listener-maxqps":"5"}`})},
		"other types": {
			request:  create(manifest{name: "web", annotations: bad, spec: `{"type":"ClusterIP"}`}),
			warnings: []string{"metadata.annotations[" + prefix + "scheduler]: has no effect on a Service of type ClusterIP"},
			audit:    map[string]string{"warned": "other-service-type"},
		},
		"deletion": {request: remove(manifest{name: "web", annotations: bad})},
		"finalizers of a Service being deleted": {
			request: update(manifest{name: "web"}, manifest{name: "web", deletionTimestamp: "2026-01-02T03:04:05Z", annotations: bad}),
		},
		"an existing problem": {
			request:  update(manifest{name: "web", annotations: bad}, manifest{name: "web", annotations: bad}),
			warnings: []string{"allowed because it was already set: metadata.annotations[" + prefix + `scheduler]: Unsupported value: "fastest"`},
			audit:    map[string]string{"warned": "dlb-invalid-value"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := admit(t, validator(), test.request)
			if err != nil {
				t.Fatal(err)
			}
			want := &admissionv1.AdmissionResponse{Allowed: true, Warnings: test.warnings, AuditAnnotations: test.audit}
			// Package review tests what follows field and value.
			sameBeginning := cmp.Comparer(func(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) })
			if diff := cmp.Diff(want, got, sameBeginning); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

// The same Service is validated with each enforcement, and while policies are not available.
func TestValidatorAppliesPolicies(t *testing.T) {
	tests := map[string]struct {
		policies policies
		allowed  bool
		warnings int
		audit    map[string]string
	}{
		"deny":        {limits(t, v1alpha1.EnforcementDeny), false, 0, map[string]string{"denied": "policy-max"}},
		"warn":        {limits(t, v1alpha1.EnforcementWarn), true, 1, map[string]string{"warned": "policy-max"}},
		"audit":       {limits(t, v1alpha1.EnforcementAudit), true, 0, map[string]string{"audited": "policy-max"}},
		"unavailable": {policies{err: errors.New("not synced")}, true, 1, map[string]string{"warned": "policies-unavailable"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			v := service.NewValidator(service.Options{Reviewer: reviewer, Policies: test.policies})
			got, err := admit(t, v, create(manifest{name: "web", annotations: `{"` + prefix + `listener-maxqps":"30000"}`}))
			if err != nil {
				t.Fatal(err)
			}
			if got.Allowed != test.allowed || len(got.Warnings) != test.warnings {
				t.Errorf("got %+v", got)
			}
			if diff := cmp.Diff(test.audit, got.AuditAnnotations); diff != "" {
				t.Errorf("audit annotations (-want +got):\n%s", diff)
			}
			if got.Allowed {
				return
			}
			const want = `Invalid value: "30000": exceeds the maximum of 20000 set by LoadBalancerPolicy "limits" (tcp/80); lower the value`
			if message := got.Result.Details.Causes[0].Message; message != want {
				t.Errorf("cause is %q, want %q", message, want)
			}
		})
	}
}

func TestValidatorRefuses(t *testing.T) {
	v := validator()
	tests := map[string]struct {
		request *admissionv1.AdmissionRequest
		name    string
	}{
		"by name":                 {create(manifest{name: "web", annotations: twoMistakes}), "web"},
		"by generateName":         {create(manifest{generateName: "web-", annotations: twoMistakes}), "web-"},
		"a change":                {update(manifest{name: "web"}, manifest{name: "web", annotations: twoMistakes}), "web"},
		"becomes a load balancer": {update(manifest{name: "web", annotations: twoMistakes, spec: `{"type":"ClusterIP"}`}, manifest{name: "web", annotations: twoMistakes}), "web"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := admit(t, v, test.request)
			if err != nil {
				t.Fatal(err)
			}
			if got.Allowed || got.Result == nil || got.Result.Details == nil {
				t.Fatalf("not refused: %+v", got)
			}
			status := got.Result
			type verdict struct {
				Code       int32
				Reason     metav1.StatusReason
				Kind, Name string
				Fields     []string
			}
			want := verdict{422, metav1.StatusReasonInvalid, "Service", test.name, []string{
				"metadata.annotations[" + prefix + "listener-maxqps]",
				"metadata.annotations[" + prefix + "schedular]",
			}}
			have := verdict{Code: status.Code, Reason: status.Reason, Kind: status.Details.Kind, Name: status.Details.Name}
			for _, cause := range status.Details.Causes {
				have.Fields = append(have.Fields, cause.Field)
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"denied": "dlb-invalid-value,dlb-unknown-key"}, got.AuditAnnotations); diff != "" {
				t.Errorf("audit annotations (-want +got):\n%s", diff)
			}
		})
	}
}

const twoMistakes = `{"` + prefix + `listener-maxqps":"many","` + prefix + `schedular":"round-robin"}`
