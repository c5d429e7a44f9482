package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quaymaster.dev/internal/loadbalancer"
)

// Annotations whose effect shows that a configuration is in force.
const (
	maxQPS    = loadbalancer.Prefix + "listener-maxqps" // has a default
	scheduler = loadbalancer.Prefix + "scheduler"       // has few values
	deniedBy  = "example.com/denied-by"                 // denied by the floor
)

// stored is the Service whose status is written.
const stored = "stored"

// service returns the Service that is created: six annotations of the DLB and two ports, but without maxQPS, which has
// a default.
func service(namespace string, annotations map[string]string) *corev1.Service {
	svc := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web",
			Labels: map[string]string{"app.kubernetes.io/name": "web", "app.kubernetes.io/managed-by": "benchmark"},
			Annotations: map[string]string{
				loadbalancer.Prefix + "listener-maxconn":       "5000",
				loadbalancer.Prefix + "listener-protocol.http": "http",
				loadbalancer.Prefix + "health-check-protocol":  "http",
				loadbalancer.Prefix + "health-check-path":      "/ready",
				loadbalancer.Prefix + "health-check-interval":  "10s",
				loadbalancer.Prefix + "health-check-timeout":   "3s",
			},
		},
		Spec: corev1.ServiceSpec{
			Type:     corev1.ServiceTypeLoadBalancer,
			Selector: map[string]string{"app.kubernetes.io/name": "web"},
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)},
				{Name: "admin", Protocol: corev1.ProtocolTCP, Port: 8443, TargetPort: intstr.FromString("admin")},
			},
		},
	}
	maps.Copy(svc.Annotations, annotations)
	return svc
}

// workload is a kind of request, by its name in the report.
type workload string

const (
	loadBalancers workload = "LoadBalancer creates"
	clusterIPs    workload = "ClusterIP creates"
	statusWrites  workload = "status writes"
)

// request is a request that is sent repeatedly.
type request struct {
	method, path, contentType string
	body                      []byte
	status                    int
}

// request returns the requests of the workload, all by server-side dry run: nothing is stored.
func (w workload) request(namespace string) (request, error) {
	path := "/api/v1/namespaces/" + namespace + "/services"
	if w == statusWrites {
		return request{
			method: http.MethodPatch, path: path + "/" + stored + "/status?dryRun=All", contentType: string(types.MergePatchType),
			body:   []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.1"}]}}}`),
			status: http.StatusOK,
		}, nil
	}
	svc := service(namespace, nil)
	if w == clusterIPs {
		svc.Spec.Type = corev1.ServiceTypeClusterIP
	}
	body, err := json.Marshal(svc)
	return request{
		method: http.MethodPost, path: path + "?dryRun=All", contentType: runtime.ContentTypeJSON,
		body: body, status: http.StatusCreated,
	}, err
}

func (r request) build(host string) (*http.Request, error) {
	built, err := http.NewRequest(r.method, host+r.path, bytes.NewReader(r.body)) //nolint:noctx // bounded by the client
	if err != nil {
		return nil, err
	}
	built.Header.Set("Content-Type", r.contentType)
	built.Header.Set("Accept", runtime.ContentTypeJSON)
	return built, nil
}

// sampleReview returns a review of the Service that all webhooks allow.
func sampleReview() *admissionv1.AdmissionReview {
	svc := service("default", nil)
	// The API server sets these before it calls webhooks.
	policy, family := corev1.ServiceInternalTrafficPolicyCluster, corev1.IPFamilyPolicySingleStack
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.IPFamilies = "", nil, nil
	svc.Spec.InternalTrafficPolicy, svc.Spec.IPFamilyPolicy = &policy, &family
	svc.Spec.ExternalTrafficPolicy, svc.Spec.SessionAffinity = corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceAffinityNone
	kind := metav1.GroupVersionKind{Version: "v1", Kind: "Service"}
	resource := metav1.GroupVersionResource{Version: "v1", Resource: "services"}
	dryRun := true
	return &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "0df28fbd-5f5f-11e8-bc74-36e6bb280816", Kind: kind, Resource: resource,
			RequestKind: &kind, RequestResource: &resource, Name: svc.Name, Namespace: svc.Namespace,
			Operation: admissionv1.Create, DryRun: &dryRun, Object: runtime.RawExtension{Object: svc},
			UserInfo: authenticationv1.UserInfo{Username: "benchmark"},
			Options:  runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}`)},
		},
	}
}
