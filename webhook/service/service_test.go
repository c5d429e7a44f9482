package service_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/api/v1alpha1"
	"quaymaster.dev/internal/rules/loadbalancer"
	"quaymaster.dev/internal/rules/policy"
	"quaymaster.dev/internal/rules/review"
	"quaymaster.dev/test/harness/admission"
	"quaymaster.dev/webhook"
)

const prefix = loadbalancer.Prefix

var reviewer = review.Own("mycloud.io/dlb", true)

// policies returns the same policies for every namespace.
type policies struct {
	all []*policy.Policy
	err error
}

func (p policies) Applicable(context.Context, string) ([]*policy.Policy, error) { return p.all, p.err }

// limits returns a policy with a default of 8000 and a maximum of 20000 for maxqps.
func limits(t *testing.T, enforcement v1alpha1.Enforcement) policies {
	t.Helper()
	maximum := intstr.FromInt32(20000)
	compiled, findings := policy.Compile(&v1alpha1.LoadBalancerPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "limits"},
		Spec: v1alpha1.LoadBalancerPolicySpec{
			Defaults:    map[string]string{prefix + "listener-maxqps": "8000"},
			Rules:       []v1alpha1.Rule{{Annotation: prefix + "listener-maxqps", Max: &maximum}},
			Enforcement: enforcement,
		},
	})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return policies{all: []*policy.Policy{compiled}}
}

// manifest is a Service in JSON, as the API server sends it.
type manifest struct{ name, generateName, deletionTimestamp, annotations, spec string }

const loadBalancer = `{"type":"LoadBalancer","clusterIP":"10.0.0.1","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack",` +
	`"externalTrafficPolicy":"Cluster","sessionAffinity":"None",` +
	`"ports":[{"name":"http","port":80,"targetPort":8080,"nodePort":30080,"protocol":"TCP"}]}`

func (m manifest) json() []byte {
	metadata := map[string]json.RawMessage{"namespace": json.RawMessage(`"shop"`)}
	for field, value := range map[string]string{"name": m.name, "generateName": m.generateName, "deletionTimestamp": m.deletionTimestamp} {
		if value != "" {
			metadata[field] = json.RawMessage(`"` + value + `"`)
		}
	}
	if m.annotations != "" {
		metadata["annotations"] = json.RawMessage(m.annotations)
	}
	spec := m.spec
	if spec == "" {
		spec = loadBalancer
	}
	raw, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": json.RawMessage(spec)})
	if err != nil {
		panic(err)
	}
	return raw
}

func create(m manifest) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: m.json()}}
}

func update(from, to manifest) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{
		Operation: admissionv1.Update, Object: runtime.RawExtension{Raw: to.json()}, OldObject: runtime.RawExtension{Raw: from.json()},
	}
}

func remove(m manifest) *admissionv1.AdmissionRequest {
	return &admissionv1.AdmissionRequest{Operation: admissionv1.Delete, OldObject: runtime.RawExtension{Raw: m.json()}}
}

// Both admitters report a malformed request, which no API server sends, as the caller's mistake, not as a finding.
func TestMalformedObjects(t *testing.T) {
	raw := func(operation admissionv1.Operation, object, old string) *admissionv1.AdmissionRequest {
		return &admissionv1.AdmissionRequest{
			Operation: operation, Object: runtime.RawExtension{Raw: []byte(object)}, OldObject: runtime.RawExtension{Raw: []byte(old)},
		}
	}
	good := string(manifest{name: "web"}.json())
	tests := map[string]struct {
		request *admissionv1.AdmissionRequest
		want    string
	}{
		"no object":            {raw(admissionv1.Create, `null`, `null`), "request.object is missing"},
		"no old object":        {raw(admissionv1.Update, good, `null`), "request.oldObject is missing"},
		"object of a type":     {raw(admissionv1.Create, `[]`, `null`), "request.object must be a Service: /request/object must be an object"},
		"old object of a type": {raw(admissionv1.Update, good, `{"spec":7}`), "request.oldObject must be a Service: /request/oldObject/spec must be an object"},
		"other kind":           {raw(admissionv1.Create, `{"apiVersion":"v1","kind":"Pod"}`, `null`), `request.object must have apiVersion "v1" and kind "Service"; got apiVersion "v1" and kind "Pod"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for which, admitter := range map[string]webhook.Admitter{"mutator": mutator(), "validator": validator()} {
				response, err := admit(t, admitter, test.request)
				if want := (admission.StatusError{Status: http.StatusBadRequest, Problem: test.want}); err == nil || err.Error() != want.Error() {
					t.Errorf("%s: got %+v, %v; want %s", which, response, err, test.want)
				}
			}
		})
	}
}

// admit returns the response to a request.
func admit(t testing.TB, by webhook.Admitter, request *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	t.Helper()
	return admission.Call(t.Context(), t, by, request)
}
