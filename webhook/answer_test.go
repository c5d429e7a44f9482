package webhook

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A response means what it means when encoding/json writes it.
func TestResponsesAreEncodedCompletely(t *testing.T) {
	patchType := admissionv1.PatchTypeJSONPatch
	for name, response := range map[string]*admissionv1.AdmissionResponse{
		"allowed": {UID: "u\"\xff", Allowed: true},
		"denied": {UID: "u", Result: &metav1.Status{Code: 422, Message: "<no>\n", Details: &metav1.StatusDetails{
			Causes: []metav1.StatusCause{{Field: "a", Message: "b"}},
		}}, AuditAnnotations: map[string]string{"denied": "a,b"}},
		"patched": {
			UID: "u", Allowed: true, Patch: []byte(`[{"op":"add"}]`), PatchType: &patchType,
			AuditAnnotations: map[string]string{"b": "\u2028", "a": "\\"},
		},
		"warned": {UID: "u", Allowed: true, Warnings: []string{"one\x00", "<two>", "\xfe"}},
	} {
		got, err := encodeReview(response)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{Kind: "AdmissionReview", APIVersion: "admission.k8s.io/v1"}, Response: response,
		})
		if err != nil {
			t.Fatal(err)
		}
		var decodedGot, decodedWant any
		if err := json.Unmarshal(got, &decodedGot); err != nil {
			t.Fatalf("%s: %v: %s", name, err, got)
		}
		if err := json.Unmarshal(want, &decodedWant); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decodedWant, decodedGot); diff != "" {
			t.Errorf("%s (-encoding/json +got):\n%s", name, diff)
		}
	}
}

// A patch is the one that encoding/json would write, whatever the keys and values.
func TestPatchIsEncodedCompletely(t *testing.T) {
	var p Patch
	p.AddEntries("/metadata/annotations", map[string]string{}, map[string]string{
		"example.com/a~b": "\"<x>\"\n", "ü\\": "\xff", "~1/": "",
	})
	p.AddEntries("/metadata/labels", nil, map[string]string{"b": "2", "a/b": "1"})
	p.Add("/spec", map[string]any{"a": 1})
	response := Allow()
	if err := p.Into(response); err != nil {
		t.Fatal(err)
	}
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	var got []operation
	if err := json.Unmarshal(response.Patch, &got); err != nil {
		t.Fatalf("%v: %s", err, response.Patch)
	}
	if diff := cmp.Diff([]operation{
		{"add", "/metadata/annotations/example.com~1a~0b", "\"<x>\"\n"}, {"add", "/metadata/annotations/~01~1", ""},
		{"add", "/metadata/annotations/ü\\", "�"}, {"add", "/metadata/labels", map[string]any{"a/b": "1", "b": "2"}},
		{"add", "/spec", map[string]any{"a": 1.0}},
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
