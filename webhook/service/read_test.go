package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	kjson "sigs.k8s.io/json"

	"quaymaster.dev/internal/jsonreader"
	"quaymaster.dev/webhook"
)

// service has the fields of a Service that are read.
type service struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        struct {
		Name              string            `json:"name"`
		GenerateName      string            `json:"generateName"`
		Namespace         string            `json:"namespace"`
		DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
		Annotations       map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Type  corev1.ServiceType `json:"type"`
		Ports []struct {
			Name        string             `json:"name"`
			Protocol    corev1.Protocol    `json:"protocol"`
			AppProtocol *string            `json:"appProtocol"`
			Port        int32              `json:"port"`
			TargetPort  intstr.IntOrString `json:"targetPort"`
			NodePort    int32              `json:"nodePort"`
		} `json:"ports"`
		Selector                      map[string]string                    `json:"selector"`
		ClusterIPs                    []string                             `json:"clusterIPs"`
		ExternalIPs                   []string                             `json:"externalIPs"`
		LoadBalancerIP                string                               `json:"loadBalancerIP"`
		LoadBalancerSourceRanges      []string                             `json:"loadBalancerSourceRanges"`
		LoadBalancerClass             *string                              `json:"loadBalancerClass"`
		AllocateLoadBalancerNodePorts *bool                                `json:"allocateLoadBalancerNodePorts"`
		IPFamilies                    []corev1.IPFamily                    `json:"ipFamilies"`
		IPFamilyPolicy                *corev1.IPFamilyPolicy               `json:"ipFamilyPolicy"`
		ExternalTrafficPolicy         corev1.ServiceExternalTrafficPolicy  `json:"externalTrafficPolicy"`
		InternalTrafficPolicy         *corev1.ServiceInternalTrafficPolicy `json:"internalTrafficPolicy"`
		SessionAffinity               corev1.ServiceAffinity               `json:"sessionAffinity"`
		SessionAffinityConfig         *struct {
			ClientIP *struct {
				TimeoutSeconds *int32 `json:"timeoutSeconds"`
			} `json:"clientIP"`
		} `json:"sessionAffinityConfig"`
	} `json:"spec"`
	Status struct {
		LoadBalancer struct {
			Ingress []struct{} `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

// FuzzDecode compares how a Service is read, alone and in a review, with the decoder of the API server.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"metadata":{"name":"a","name":"b","annotations":{"x":"1"},"annotations":{"y":"2"}}}`,
		`{"metadata":{"annotations":{"x":"1","x":"2","x":null}},"metadata":{"annotations":null,"name":null}}`,
		`{"spec":{"ports":[{"port":1,"name":"a"},{"port":2}],"ports":[{"name":"b"}],"ports":[{"name":"c"},{"nodePort":1}]}}`,
		`{"spec":{"ports":[{"port":1}],"ports":null}}`, `{"spec":{"ports":[{"port":1}],"ports":[],"ports":[{}]}}`,
		`{"spec":{"ports":[{"port":1},{"port":2}],"ports":[{}],"ports":[{},{},{},{}]}}`,
		`{"Metadata":{"name":"a"},"metadata":{"NAME":"a","\u006eame":"b"}}`,
		"{\"metadata\":{\"name\":\"\xff\xfe\",\"annotations\":{\"\xc3\x28\":\"\xed\xa0\x80\",\"\xff\":\"1\",\"\xfe\":\"2\"}}}",
		`{"metadata":{"name":"\ud800","namespace":"\ud83d\ude00","generateName":"\u0000\n"}}`,
		`{"spec":{"ports":[{"port":1.0}]}}`, `{"spec":{"ports":[{"port":1e2}]}}`, `{"spec":{"ports":[{"port":-0}]}}`,
		`{"spec":{"ports":[{"port":99999999999}]}}`, `{"spec":{"ports":[{"port":"80"}]}}`, `{"spec":{"ports":{}}}`,
		`{"spec":{"ports":[{"port":80,"targetPort":"http"},{"targetPort":8080},{"targetPort":1.5},null]}}`,
		`{"spec":{"ports":[{"targetPort":"http","targetPort":null},{"targetPort":8080,"targetPort":"a"}]}}`,
		`{"spec":{"ports":[{"targetPort":{}}]}}`, `{"spec":{"ports":[{"targetPort":true}]}}`,
		`{"spec":{"ports":7},"metadata":{"name":"after an error"}}`, `{"spec":null,"status":[]}`,
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}`, `{"metadata":{"deletionTimestamp":"x"}}`,
		`{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":null}}`,
		`{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"annotations":[]}}`, `{"metadata":{"annotations":{"a":1}}}`,
		`{"spec":{"sessionAffinityConfig":{"clientIP":{"timeoutSeconds":9}},"sessionAffinityConfig":{"clientIP":{}}}}`,
		`{"spec":{"sessionAffinityConfig":{"clientIP":{"timeoutSeconds":9,"timeoutSeconds":null}}}}`,
		`{"spec":{"loadBalancerClass":"a","loadBalancerClass":null,"allocateLoadBalancerNodePorts":0}}`,
		`{"spec":{"allocateLoadBalancerNodePorts":false,"ipFamilies":["IPv4",null],"selector":{"a":"b"},"clusterIPs":[1]}}`,
		`{"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.1"},null,{}]}}}`, `{"status":{"loadBalancer":{"ingress":[1]}}}`,
		`{} {}`, `{}x`, "{}\n\t ", `{"a":1,}`, `{a:1}`, `[]`, `null`, `""`, ` `, ``, `{"kind":"A` + "\n" + `"}`, `{"a"`, `{"a":`,
		`{"metadata":{"name":"a"`, `{"spec":{"ports":[`, `{"spec":{"ports":[{}`, `{"spec":{"ports":[{}],`, `{"spec":{"ports":[{}]]`,
		string(manifest()),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var want service
		errWant := kjson.UnmarshalCaseSensitivePreserveInts(raw, &want)
		var got *corev1.Service
		errGot := jsonreader.Read(raw, func(r *jsonreader.Reader) { got = read(r) })
		if (errGot == nil) != (errWant == nil) {
			t.Fatalf("%v, API server: %v\n%.300q", errGot, errWant, raw)
		}
		if errGot != nil {
			got = nil
		} else if diff := cmp.Diff(want.service(), got); diff != "" {
			t.Fatalf("(-API server +got):\n%s\n%.300q", diff, raw)
		}
		if json.Valid(raw) && string(bytes.TrimSpace(raw)) != "null" {
			if diff := cmp.Diff(got, inReview(t, raw)); diff != "" {
				t.Fatalf("in a review (-alone +in a review):\n%s\n%.300q", diff, raw)
			}
		}
	})
}

// service returns the object as a Service.
func (s *service) service() *corev1.Service {
	m := &s.Metadata
	svc := &corev1.Service{TypeMeta: s.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: m.Name, GenerateName: m.GenerateName, Namespace: m.Namespace, DeletionTimestamp: m.DeletionTimestamp,
		Annotations: m.Annotations,
	}, Spec: corev1.ServiceSpec{
		Type: s.Spec.Type, Selector: s.Spec.Selector, ClusterIPs: s.Spec.ClusterIPs, ExternalIPs: s.Spec.ExternalIPs,
		LoadBalancerIP: s.Spec.LoadBalancerIP, LoadBalancerSourceRanges: s.Spec.LoadBalancerSourceRanges,
		LoadBalancerClass: s.Spec.LoadBalancerClass, AllocateLoadBalancerNodePorts: s.Spec.AllocateLoadBalancerNodePorts,
		IPFamilies: s.Spec.IPFamilies, IPFamilyPolicy: s.Spec.IPFamilyPolicy,
		ExternalTrafficPolicy: s.Spec.ExternalTrafficPolicy, InternalTrafficPolicy: s.Spec.InternalTrafficPolicy,
		SessionAffinity: s.Spec.SessionAffinity,
	}}
	if ports := s.Spec.Ports; ports != nil {
		svc.Spec.Ports = make([]corev1.ServicePort, len(ports))
		for i, p := range ports {
			svc.Spec.Ports[i] = corev1.ServicePort(p)
		}
	}
	if config := s.Spec.SessionAffinityConfig; config != nil {
		svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{}
		if config.ClientIP != nil {
			svc.Spec.SessionAffinityConfig.ClientIP = &corev1.ClientIPConfig{TimeoutSeconds: config.ClientIP.TimeoutSeconds}
		}
	}
	if ingress := s.Status.LoadBalancer.Ingress; ingress != nil {
		svc.Status.LoadBalancer.Ingress = make([]corev1.LoadBalancerIngress, len(ingress))
	}
	return svc
}

// seen keeps what the Handler has read.
type seen struct {
	Validator

	object runtime.Object
}

func (s *seen) Admit(_ context.Context, req *admissionv1.AdmissionRequest) (*admissionv1.AdmissionResponse, error) {
	s.object = req.Object.Object
	return webhook.Allow(), nil
}

// inReview returns the Service that the Handler reads from a review; nil if it leaves it to the admitter to report what
// is wrong with it.
func inReview(t *testing.T, raw []byte) *corev1.Service {
	t.Helper()
	metrics, err := webhook.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	admitter := &seen{}
	handler := webhook.NewHandler(webhook.HandlerOptions{
		Resource: Resource(), Admitter: admitter, Limit: webhook.NewLimit(1), Metrics: metrics, Clock: clock.RealClock{},
	})
	body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",`+
		`"resource":{"group":"","version":"v1","resource":"services"},"object": %s ,"name":"after"}}`, raw)
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader([]byte(body)))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if handler.ServeHTTP(w, r.WithContext(klog.NewContext(r.Context(), logr.Discard()))); w.Code != http.StatusOK {
		t.Fatalf("status %d: %s\n%.300q", w.Code, w.Body, raw)
	}
	svc, _ := admitter.object.(*corev1.Service)
	return svc
}

// manifest returns a Service with every field that is read.
func manifest() []byte {
	return []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","generateName":"web-","namespace":"shop",` +
		`"deletionTimestamp":"2026-01-01T00:00:00Z","annotations":{"a":"b"},"managedFields":[{"manager":"kubectl"}]},` +
		`"spec":{"type":"LoadBalancer","ports":[{"name":"http","protocol":"TCP","appProtocol":"http","port":80,` +
		`"targetPort":8080,"nodePort":30080}],"selector":{"app":"web"},"clusterIP":"10.0.0.1","clusterIPs":["10.0.0.1"],` +
		`"externalIPs":["192.0.2.1"],"loadBalancerIP":"192.0.2.2","loadBalancerSourceRanges":["10.0.0.0/8"],` +
		`"loadBalancerClass":"mycloud.io/dlb","allocateLoadBalancerNodePorts":true,"ipFamilies":["IPv4"],` +
		`"ipFamilyPolicy":"SingleStack","externalTrafficPolicy":"Local","internalTrafficPolicy":"Cluster",` +
		`"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":10800}}},` +
		`"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.2"}]}}}`)
}
