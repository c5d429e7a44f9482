package adversarial

import (
	"encoding/json"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"quaymaster.dev/test/builder"
)

const (
	dlb     = "service.beta.kubernetes.io/dlb-"
	foreign = "service.beta.kubernetes.io/aws-load-balancer-"
)

// Object is a Service that is meant to cost the webhook more than it costs its author.
type Object struct {
	// Name says what is unusual.
	Name string
	// Service is what the user sends. The API server calls webhooks before it validates sizes.
	Service *corev1.Service
}

// Objects returns Services of hostile authors.
func Objects() []Object {
	const limit = 256 << 10
	return []Object{
		{"40,000 port forms", annotated(portForms(40_000))},
		{"port forms of a valid size", annotated(portForms(4_000))},
		{"key of 2.9 MiB", annotated(map[string]string{dlb + strings.Repeat("x", 29*1<<20/10): "1"})},
		{"key of 2.9 MiB of another cloud", annotated(map[string]string{foreign + strings.Repeat("x", 29*1<<20/10): "1"})},
		{"256 KiB of unknown keys", annotated(unknownKeys(limit))},
		{"256 KiB of values", annotated(map[string]string{dlb + "tags": strings.Repeat("a=b,", limit/4)})},
		{"value for a slow pattern", annotated(map[string]string{dlb + "tags": strings.Repeat("a", 200<<10) + "!"})},
		{"many ports", ports(2_000)},
		{"many source ranges", sourceRanges(100_000)},
	}
}

// SmallService returns an ordinary Service.
func SmallService() *corev1.Service {
	return annotated(map[string]string{dlb + "listener-maxqps": "100"})
}

func annotated(annotations map[string]string) *corev1.Service {
	svc := builder.Service()
	svc.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	svc.Annotations = annotations
	return svc
}

func portForms(n int) map[string]string {
	annotations := map[string]string{}
	for i := range n {
		annotations[fmt.Sprintf("%slistener-maxqps.%d", dlb, i+1)] = "1"
	}
	return annotations
}

func unknownKeys(size int) map[string]string {
	annotations := map[string]string{}
	for i := 0; size > 0; i++ {
		key := fmt.Sprintf("%slistener-maxqp%d", dlb, i)
		annotations[key] = "1"
		size -= len(key) + 1
	}
	return annotations
}

func ports(n int) *corev1.Service {
	svc := SmallService()
	svc.Spec.Ports = nil
	for i := range n {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p-%d", i), Port: int32(i + 1)})
	}
	return svc
}

func sourceRanges(n int) *corev1.Service {
	svc := SmallService()
	for i := range n {
		svc.Spec.LoadBalancerSourceRanges = append(svc.Spec.LoadBalancerSourceRanges, fmt.Sprintf("10.%d.%d.0/24", i>>8&255, i&255))
	}
	return svc
}

// Review returns the AdmissionReview for the creation of a Service, as an API server sends it.
func Review(svc *corev1.Service) []byte {
	raw, err := json.Marshal(svc)
	if err != nil {
		panic(err)
	}
	review, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "0df28fbd-5f5f-11e8-bc74-36e6bb280816", Operation: admissionv1.Create, Name: svc.Name, Namespace: svc.Namespace,
			Kind:     metav1.GroupVersionKind{Version: "v1", Kind: "Service"},
			Resource: metav1.GroupVersionResource{Version: "v1", Resource: "services"},
			Object:   runtime.RawExtension{Raw: raw},
		},
	})
	if err != nil {
		panic(err)
	}
	return review
}
