package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/internal/loadbalancer"
	"quaymaster.dev/internal/rules"
	"quaymaster.dev/webhook/service"
)

func builtIn(_ context.Context, svc *corev1.Service) (map[string]string, error) {
	return loadbalancer.Defaults(svc, class), nil
}

func mutator(onFinding func(rules.Finding)) *service.Mutator {
	return service.NewMutator(service.MutatorOptions{Defaulter: service.DefaulterFunc(builtIn), OnFinding: onFinding})
}

func TestMutatorPatches(t *testing.T) {
	const (
		wholeMap = `[{"op":"add","path":"/metadata/annotations","value":{"` + prefix + `listener-idle-timeout":"60s","` + prefix + `listener-maxqps":"10000"}}]`
		addIdle  = `{"op":"add","path":"/metadata/annotations/service.beta.kubernetes.io~1dlb-listener-idle-timeout","value":"60s"}`
		addQPS   = `{"op":"add","path":"/metadata/annotations/service.beta.kubernetes.io~1dlb-listener-maxqps","value":"10000"}`
	)
	const both = prefix + "listener-idle-timeout=60s," + prefix + "listener-maxqps=10000"
	tests := map[string]struct {
		request *admissionv1.AdmissionRequest
		patch   string
		audit   string
	}{
		"no annotations":      {create(manifest{name: "web"}), wholeMap, both},
		"null annotations":    {create(manifest{name: "web", annotations: "null"}), wholeMap, both},
		"empty annotations":   {create(manifest{name: "web", annotations: "{}"}), "[" + addIdle + "," + addQPS + "]", both},
		"others' annotations": {create(manifest{name: "web", annotations: `{"team":"a"}`}), "[" + addIdle + "," + addQPS + "]", both},
		"one present": {
			create(manifest{name: "web", annotations: `{"` + prefix + `listener-maxqps":"5"}`}), "[" + addIdle + "]",
			prefix + "listener-idle-timeout=60s",
		},
		"present and bad: the validator's business": {
			create(manifest{name: "web", annotations: `{"` + prefix + `listener-maxqps":"many","` + prefix + `listener-idle-timeout":""}`}), "", "",
		},
		"all present": {
			create(manifest{name: "web", annotations: `{"` + prefix + `listener-maxqps":"5","` + prefix + `listener-idle-timeout":"2s"}`}), "", "",
		},
		"becomes a load balancer":        {update(manifest{name: "web", spec: `{"type":"ClusterIP"}`}, manifest{name: "web"}), wholeMap, both},
		"was one before":                 {update(manifest{name: "web"}, manifest{name: "web"}), "", ""},
		"no load balancer":               {create(manifest{name: "web", spec: `{"type":"NodePort"}`}), "", ""},
		"load balancer of somebody else": {create(manifest{name: "web", spec: `{"type":"LoadBalancer","loadBalancerClass":"other.io/lb"}`}), "", ""},
		"being deleted":                  {create(manifest{name: "web", deletionTimestamp: "2026-01-02T03:04:05Z"}), "", ""},
		"deletion":                       {remove(manifest{name: "web"}), "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := mutator(nil).Review(t.Context(), test.request)
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
			object := apply(t, test.request.Object.Raw, got.Patch)
			test.request.Object = runtime.RawExtension{Raw: object}
			again, err := mutator(nil).Review(t.Context(), test.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&admissionv1.AdmissionResponse{Allowed: true}, again); diff != "" {
				t.Errorf("second call (-want +got):\n%s", diff)
			}
		})
	}
}

// Keys with the characters that JSON Pointers escape, and defaults that are there already, which a Defaulter may name too.
func TestMutatorEscapesAndAddsOnly(t *testing.T) {
	m := service.NewMutator(service.MutatorOptions{Defaulter: service.DefaulterFunc(
		func(context.Context, *corev1.Service) (map[string]string, error) {
			return map[string]string{"a~b/c": `"quoted"`, "team": "mine"}, nil
		})})
	request := create(manifest{name: "web", annotations: `{"team":"theirs"}`})
	response, err := m.Review(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.Service
	if err := json.Unmarshal(apply(t, request.Object.Raw, response.Patch), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a~b/c": `"quoted"`, "team": "theirs"}, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// Defaults that cannot be known are no reason to refuse anything.
func TestMutatorAdmitsWithoutDefaults(t *testing.T) {
	var found []string
	m := service.NewMutator(service.MutatorOptions{
		Defaulter: service.DefaulterFunc(func(context.Context, *corev1.Service) (map[string]string, error) {
			return nil, errors.New("cache is not synced")
		}),
		OnFinding: func(f rules.Finding) { found = append(found, f.ID) },
	})
	got, err := m.Review(t.Context(), create(manifest{name: "web"}))
	if err != nil {
		t.Fatal(err)
	}
	want := &admissionv1.AdmissionResponse{
		Allowed: true,
		Warnings: []string{
			"metadata.annotations: defaults were not added because they are not known at the moment; the controllers apply them later",
		},
		AuditAnnotations: map[string]string{"warned": "defaults-unavailable"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"defaults-unavailable"}, found); diff != "" {
		t.Errorf("counted findings (-want +got):\n%s", diff)
	}
}

func apply(t *testing.T, object, patch []byte) []byte {
	t.Helper()
	p, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := p.Apply(object)
	if err != nil {
		t.Fatal(err)
	}
	return patched
}
