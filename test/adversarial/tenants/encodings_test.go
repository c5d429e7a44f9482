package tenants_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"quaymaster.dev/test/builder"
)

// inProtobuf encodes a Service as clients in Go may, which allows values that JSON cannot express.
func inProtobuf(svc *corev1.Service) ([]byte, error) {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), protobuf)
	if !ok {
		return nil, fmt.Errorf("no serializer for %s", protobuf)
	}
	return runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), svc)
}

// rawFields returns managed fields that need not be JSON.
func rawFields(raw string) builder.ServiceOption {
	return func(svc *corev1.Service) { managed(raw)(&svc.ObjectMeta) }
}

// encodeOddly creates Services with mistakes in encodings that ordinary clients do not use.
func encodeOddly(s *stage) {
	collection := servicesOf(s.namespace)
	deep := func(depth int) string {
		return strings.Repeat(`{"f:a":`, depth) + "{}" + strings.Repeat("}", depth)
	}
	year := func(year int) *metav1.Time { return &metav1.Time{Time: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)} }
	for what, option := range map[string]builder.ServiceOption{
		"fields that are cut":        rawFields(`{"f:metadata":`),
		"fields that are no JSON":    rawFields(`<<<`),
		"fields of white space":      rawFields(strings.Repeat(" ", 1000)),
		"fields with duplicates":     rawFields(`{"f:a":{},"f:a":{}}`),
		"fields of invalid UTF-8":    rawFields("{\"f:\xff\xfe\":{}}"),
		"fields with lone surrogate": rawFields(`{"f:\ud800":{}}`),
		"fields nested 5,000 deep":   rawFields(deep(5_000)),
		"fields nested 9,990 deep":   rawFields(deep(9_990)),
		"fields nested 20,000 deep":  rawFields(deep(20_000)),
		"an invalid key":             builder.Annotation("a\xff", "b"),
		"an invalid value":           builder.Annotation("example.com/a", "b\xff\xfe\x00"),
		"invalid text in owners": func(svc *corev1.Service) {
			svc.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "a\xff", Name: "b\xff", UID: "c\xff"}}
		},
		"an invalid class": func(svc *corev1.Service) { svc.Spec.ExternalName = "\xff\xfe" },
		"a late year": func(svc *corev1.Service) {
			managed(`{"f:spec":{}}`)(&svc.ObjectMeta)
			svc.ManagedFields[0].Time = year(200_000)
		},
		"an early year": func(svc *corev1.Service) {
			managed(`{"f:spec":{}}`)(&svc.ObjectMeta)
			svc.ManagedFields[0].Time = year(-5)
		},
		"a type of port that does not exist": func(svc *corev1.Service) {
			svc.Spec.Ports[0].TargetPort = intstr.IntOrString{Type: 7, IntVal: 80}
		},
	} {
		body, err := inProtobuf(service(unique("odd"), option, mistake))
		if err != nil {
			s.Errorf("%s: %v", what, err)
			continue
		}
		s.cost(what, func() int {
			got := s.attacker.send(s.Context(), http.MethodPost, collection, protobuf, body)
			s.expectRefusal("create by protobuf with "+what, got)
			return 1
		})
	}
	// The status has times that users may write.
	for what, change := range map[string]func(*corev1.Service){
		"a late year in a condition": func(svc *corev1.Service) {
			svc.Status.Conditions = []metav1.Condition{{
				Type: "t", Status: metav1.ConditionTrue, Reason: "Because", LastTransitionTime: *year(200_000),
			}}
		},
		"fields nested 9,990 deep": func(svc *corev1.Service) { managed(deep(9_990))(&svc.ObjectMeta) },
		"fields that are no JSON":  func(svc *corev1.Service) { managed(`<<<`)(&svc.ObjectMeta) },
	} {
		name := unique("odd")
		path := collection + "/" + name
		got := s.attacker.post(s.Context(), collection, service(name))
		var svc corev1.Service
		if err := json.Unmarshal(got.text, &svc); !got.ok() || err != nil {
			s.Fatalf("%s: %s: %v", what, got, err)
		}
		change(&svc)
		for _, sub := range []string{"/status", ""} {
			body, err := inProtobuf(&svc)
			if err != nil {
				s.Fatal(err)
			}
			got := s.attacker.send(s.Context(), http.MethodPut, path+sub, protobuf, body)
			s.note("%s, replaced%s by protobuf: %s", what, sub, short(got.String()))
			s.expectRefusal("after "+what+", an invalid annotation", s.attacker.patch(s.Context(), path, invalid))
			s.expectRefusal("after "+what+", an invalid annotation by the status", s.attacker.patch(s.Context(), path+"/status", invalid))
		}
	}
	// In JSON, duplicate keys, depth and letter case could be read differently by the webhook.
	plain := string(bytes.TrimSpace(encode(service("odd", mistake))))
	for what, body := range map[string]string{
		"nested 9,990 deep":       strings.Replace(plain, `"metadata":{`, `"metadata":{"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":`+deep(9_990)+`}],`, 1),
		"nested 9,960 deep":       strings.Replace(plain, `"metadata":{`, `"metadata":{"managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":`+deep(9_960)+`}],`, 1),
		"duplicate annotations":   strings.Replace(plain, `"annotations":{`, `"annotations":{"`+dlb+`scheduler":"round-robin","a":"b"},"annotations":{`, 1),
		"a key with other case":   strings.Replace(plain, `"annotations":{`, `"Annotations":{"`+dlb+`scheduler":"round-robin"},"annotations":{`, 1),
		"escaped keys":            strings.Replace(plain, `"annotations"`, `"\u0061nnotations"`, 1),
		"a key with an escape":    strings.Replace(plain, dlb+"scheduler", `service.beta.kubernetes.io\/dlb-\u0073cheduler`, 1),
		"null before the spec":    strings.Replace(plain, `"spec":{`, `"spec":null,"spec":{`, 1),
		"unknown fields":          strings.Replace(plain, `"spec":{`, `"extra":{"a":[1,2,{"b":null}]},"spec":{"extra":1,`, 1),
		"a byte order mark":       "\ufeff" + plain,
		"annotations of no value": strings.Replace(plain, `"annotations":{`, `"annotations":{"example.com/null":null,`, 1),
	} {
		s.cost(what, func() int {
			s.expectRefusal("create by JSON "+what, s.attacker.send(s.Context(), http.MethodPost, collection, plainJSON, []byte(body)))
			return 1
		})
	}
}
