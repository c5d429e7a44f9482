package webhook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
)

type serviceObject = Object[corev1.ServiceSpec, corev1.ServiceStatus]

// FuzzDecode compares the decoding with that of the API server, for reviews and for Services.
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
		compare[admissionReview](t, raw)
		compare[serviceObject](t, raw)
	})
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
