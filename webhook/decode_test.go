package webhook

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"quaymaster.dev/internal/jsonreader"
)

type claimObject = Object[corev1.PersistentVolumeClaimSpec, corev1.PersistentVolumeClaimStatus]

// admissionReview has the fields of an AdmissionReview that are read.
type admissionReview struct {
	metav1.TypeMeta `json:",inline"`
	Request         *admissionRequest `json:"request"`
}

type admissionRequest struct {
	UID         types.UID                   `json:"uid"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	SubResource string                      `json:"subResource"`
	Name        string                      `json:"name"`
	Namespace   string                      `json:"namespace"`
	Operation   admissionv1.Operation       `json:"operation"`
	UserInfo    struct {
		Username string `json:"username"`
	} `json:"userInfo"`
	DryRun    *bool           `json:"dryRun"`
	Object    json.RawMessage `json:"object"`
	OldObject json.RawMessage `json:"oldObject"`
}

// FuzzDecode compares the decoding with that of the API server, for reviews and for objects that have no function of
// their own to read them.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, text := range []string{
		`{"metadata":{"name":"a","name":"b","annotations":{"x":"1"},"annotations":{"y":"2"}}}`,
		`{"metadata":{"annotations":{"x":"1","x":"2"}},"metadata":{"annotations":null,"name":null}}`,
		`{"spec":{"ports":[{"port":1,"name":"a"},{"port":2}],"ports":[{"name":"b"}]}}`,
		`{"spec":{"ports":[{"port":1}],"ports":null}}`,
		`{"Metadata":{"name":"a"},"metadata":{"NAME":"a"}}`,
		"{\"metadata\":{\"name\":\"\xff\xfe\",\"annotations\":{\"\xc3\x28\":\"\xed\xa0\x80\"}}}",
		`{"metadata":{"name":"\ud800","namespace":"\ud83d\ude00","generateName":"\u0000"}}`,
		`{"spec":{"ports":[{"port":1.0}]}}`, `{"spec":{"ports":[{"port":1e2}]}}`, `{"spec":{"ports":[{"port":-0}]}}`,
		`{"spec":{"ports":[{"port":99999999999}]}}`, `{"spec":{"ports":[{"port":"80"}]}}`, `{"spec":{"ports":{}}}`,
		`{"spec":{"ports":[{"port":80,"targetPort":"http"},{"targetPort":8080},{"targetPort":1.5},null]}}`,
		`{"spec":{"ports":7},"metadata":{"name":"after an error"}}`,
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, `{"metadata":{"deletionTimestamp":"x"}}`,
		`{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"annotations":[]}}`, `{"metadata":{"annotations":{"a":null}}}`,
		`{} {}`, `{}x`, "{}\n\t ", `{"a":1,}`, `{a:1}`, `[]`, `null`, `""`, ` `, ``, `{"kind":"A` + "\n" + `"}`,
		`{"unknown":` + strings.Repeat("[", 9998) + strings.Repeat("]", 9998) + `}`,
		`{"unknown":` + strings.Repeat("[", 10001) + strings.Repeat("]", 10001) + `}`,
		`{"request":{"object":` + strings.Repeat("[", 9997) + strings.Repeat("]", 9997) + `}}`,
		`{"request":{"uid":"u","operation":"CREATE","object":{"a":1,"a":2},"oldObject":null,"dryRun":null}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		compareReview(t, raw)
		compare[claimObject](t, raw)
	})
}

// compareReview compares how a review is read.
func compareReview(t *testing.T, raw []byte) {
	t.Helper()
	var kind metav1.TypeMeta
	var got *admissionv1.AdmissionRequest
	errGot := jsonreader.Read(raw, func(r *jsonreader.Reader) { kind, got = (&Handler{}).review(r) })
	var want admissionReview
	errWant := kjson.UnmarshalCaseSensitivePreserveInts(raw, &want)
	if (errGot == nil) != (errWant == nil) {
		t.Fatalf("%v, API server: %v\n%.300q", errGot, errWant, raw)
	}
	if errGot != nil {
		return
	}
	var request *admissionv1.AdmissionRequest
	if w := want.Request; w != nil {
		request = &admissionv1.AdmissionRequest{
			UID: w.UID, Resource: w.Resource, SubResource: w.SubResource, Name: w.Name, Namespace: w.Namespace,
			Operation: w.Operation, UserInfo: authenticationv1.UserInfo{Username: w.UserInfo.Username}, DryRun: w.DryRun,
			Object: rawObject(w.Object), OldObject: rawObject(w.OldObject),
		}
	}
	if diff := cmp.Diff(want.TypeMeta, kind) + cmp.Diff(request, got); diff != "" {
		t.Fatalf("(-API server +got):\n%s\n%.300q", diff, raw)
	}
}

func rawObject(raw json.RawMessage) runtime.RawExtension {
	if string(raw) == "null" {
		raw = nil
	}
	return runtime.RawExtension{Raw: raw}
}

func compare[T any](t *testing.T, raw []byte) {
	t.Helper()
	var got, want T
	errGot, errWant := unmarshal(raw, &got), kjson.UnmarshalCaseSensitivePreserveInts(raw, &want)
	if (errGot == nil) != (errWant == nil) {
		t.Fatalf("%T: %v, API server: %v\n%.300q", got, errGot, errWant, raw)
	}
	if errGot == nil {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-API server +got):\n%s\n%.300q", diff, raw)
		}
	}
}
